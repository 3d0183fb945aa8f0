"""aioquic with our algorithms: a client and a server behind a relay that delays, limits the rate and drops."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import asyncio
import datetime
import ipaddress
import random
import ssl

import pytest

aioquic = pytest.importorskip("aioquic")

from aioquic.asyncio import QuicConnectionProtocol, connect, serve  # noqa: E402
from aioquic.quic.configuration import QuicConfiguration  # noqa: E402
from aioquic.quic.events import StreamDataReceived  # noqa: E402
from cryptography import x509  # noqa: E402
from cryptography.hazmat.primitives import hashes  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402

import bbrlab  # noqa: E402
import bbrlab.aioquic  # noqa: E402

RATE_BPS, DELAY_S, LOSS, BUFFER_S = 8e6, 0.02, 0.02, 0.07


class Relay(asyncio.DatagramProtocol):
    """Between a client and the server: what the server sends passes a bottleneck, a lossy line and a delay."""

    def __init__(self, server, seed):
        self.server, self.client, self.free, self.drops = server, None, 0.0, [0, 0]
        self.random = random.Random(seed)

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        loop = asyncio.get_running_loop()
        if address != self.server:
            self.client = address
            loop.call_later(DELAY_S, self.transport.sendto, data, self.server)
            return
        takes = len(data) * 8 / RATE_BPS
        begins = max(loop.time(), self.free)
        if begins - loop.time() > BUFFER_S:
            self.drops[0] += 1
            return
        self.free = begins + takes
        if self.random.random() < LOSS:
            self.drops[1] += 1
            return
        loop.call_at(self.free + DELAY_S, self.transport.sendto, data, self.client)


class Server(QuicConnectionProtocol):
    connections: list = []

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived) and event.data:
            Server.connections.append(self._quic)
            self._quic.send_stream_data(event.stream_id, bytes(int(event.data)), end_stream=True)
            self.transmit()


class Client(QuicConnectionProtocol):
    received = 0

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            self.received += len(event.data)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1)).add_extension(address, False)
    return builder.sign(key, hashes.SHA256()), key


async def download(certificate, algorithm, seconds):
    """Bytes that a client gets in this time, and the server's connection."""
    at_server = QuicConfiguration(is_client=False, congestion_control_algorithm=algorithm)
    at_server.certificate, at_server.private_key = certificate
    server = await serve("127.0.0.1", 0, configuration=at_server, create_protocol=Server)
    address = server._transport.get_extra_info("sockname")[:2]
    loop = asyncio.get_running_loop()
    transport, relay = await loop.create_datagram_endpoint(lambda: Relay(address, 1), local_addr=("127.0.0.1", 0))
    at_client = QuicConfiguration(verify_mode=ssl.CERT_NONE, max_data=1 << 26, max_stream_data=1 << 26)
    try:
        port = transport.get_extra_info("sockname")[1]
        async with connect("127.0.0.1", port, configuration=at_client, create_protocol=Client) as client:
            client._quic.send_stream_data(client._quic.get_next_available_stream_id(), b"4000000")
            client.transmit()
            await asyncio.sleep(seconds)
            return client.received, Server.connections[-1], relay.drops
    finally:
        transport.close()
        server.close()


def test_bbr_keeps_its_rate_under_random_loss(certificate):
    bbrlab.aioquic.register("bbr3")
    bbrlab.aioquic.register("cubic", name="core-cubic")
    got = {}
    for algorithm in ("reno", "core-cubic", "bbr3"):
        got[algorithm], connection, drops = asyncio.run(download(certificate, algorithm, 3))
        control = connection._loss._cc
        print(algorithm, got[algorithm] * 8 / 3e6, "Mbit/s", control.get_log_data(), drops)
        if algorithm != "reno":
            assert isinstance(control, bbrlab.aioquic.CongestionControl)
            assert control.controller.in_flight == control.bytes_in_flight
    assert control.controller.state.startswith("probe_bw") and control.controller.pacing_rate_bps < 2 * RATE_BPS
    assert got["bbr3"] > 1.5 * got["reno"] and got["bbr3"] > 1.5 * got["core-cubic"], got
    assert got["bbr3"] * 8 / 3 > 0.5 * RATE_BPS, got


def test_without_a_rate_the_pacer_is_aioquics():
    bbrlab.aioquic.register("reno", name="core-reno")
    from aioquic.quic.recovery import QuicPacketPacer, QuicPacketRecovery

    def pacer(name):
        return QuicPacketRecovery(
            congestion_control_algorithm=name,
            initial_rtt=0.1,
            max_datagram_size=1280,
            peer_completed_address_validation=True,
            send_probe=lambda: None,
        )._pacer

    assert type(pacer("reno")) is QuicPacketPacer
    own = pacer("core-reno")
    own.update_rate(congestion_window=12_800, smoothed_rtt=0.05)
    assert own.packet_time == 0.005


def test_an_unknown_algorithm_is_refused_when_it_is_registered():
    with pytest.raises(bbrlab.ScenarioError, match="bbr4"):
        bbrlab.aioquic.register("bbr4")
