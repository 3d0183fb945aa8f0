"""Serves the files of a directory over HTTP/3 with aioquic, on a free port of loopback.

Usage: aioquic_serve.py DIRECTORY CERTIFICATE KEY
Prints its URL, and then a line per response, as `bbrlab serve --log` does: address, protocol, method, path, status.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import asyncio
import pathlib
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated


class Server(QuicConnectionProtocol):
    """A connection of a client."""

    files = {}

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.http = H3Connection(self._quic)
        self.alpn = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.alpn = event.alpn_protocol
        for one in self.http.handle_event(event):
            if isinstance(one, HeadersReceived):
                self.answer(one.stream_id, dict(one.headers))
        self.transmit()

    def answer(self, stream, headers):
        """Sends a file, or 404."""
        path = headers[b":path"].decode()
        content = self.files.get(path)
        status = 404 if content is None else 200
        body = content or b""
        self.http.send_headers(stream, [(b":status", str(status).encode()), (b"content-length", str(len(body)).encode())])
        self.http.send_data(stream, body, end_stream=True)
        peer = ":".join(map(str, self._quic._network_paths[0].addr[:2]))
        print(peer, self.alpn, headers[b":method"].decode(), path, status, flush=True)


async def main(directory, certificate, key):
    Server.files = {f"/{path.name}": path.read_bytes() for path in pathlib.Path(directory).iterdir()}
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(certificate, key)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: QuicServer(configuration=configuration, create_protocol=Server), local_addr=("127.0.0.1", 0))
    print(f"https://127.0.0.1:{transport.get_extra_info('sockname')[1]}/", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
