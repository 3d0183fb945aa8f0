"""Fetches paths from an HTTP/3 server with aioquic, on one connection: first one after the other, then all at once.

Usage: aioquic_get.py https://127.0.0.1:PORT/ CERTIFICATE PATH…
Prints an object in JSON per response: path, status, bytes, sha256, protocol.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import asyncio
import hashlib
import json
import sys
import urllib.parse

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated

LIMIT_S = 60


class Response:
    """One response, while it arrives."""

    def __init__(self, path):
        self.path = path
        self.status = 0
        self.bytes = 0
        self.sum = hashlib.sha256()
        self.done = asyncio.get_running_loop().create_future()

    def report(self, protocol):
        """Its line in JSON."""
        return json.dumps({"path": self.path, "status": self.status, "bytes": self.bytes, "sha256": self.sum.hexdigest(),
                           "protocol": protocol})


class Client(QuicConnectionProtocol):
    """A connection to an HTTP/3 server."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.http = H3Connection(self._quic)
        self.open = {}
        self.alpn = None

    async def get(self, host, path):
        """Requests a path, and prints a line once it is complete."""
        stream = self._quic.get_next_available_stream_id()
        self.open[stream] = response = Response(path)
        headers = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", host.encode()), (b":path", path.encode())]
        self.http.send_headers(stream, headers, end_stream=True)
        self.transmit()
        await response.done
        print(response.report(self.alpn), flush=True)

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.alpn = event.alpn_protocol
        if isinstance(event, ConnectionTerminated):
            for response in self.open.values():
                response.done.set_exception(ConnectionError(event.reason_phrase or f"error {event.error_code}"))
            self.open.clear()
        for one in self.http.handle_event(event):
            response = self.open.get(getattr(one, "stream_id", None))
            if response is None:
                continue
            if isinstance(one, HeadersReceived):
                response.status = int(dict(one.headers).get(b":status", response.status))
            elif isinstance(one, DataReceived):
                response.bytes += len(one.data)
                response.sum.update(one.data)
            if one.stream_ended:
                del self.open[one.stream_id]
                response.done.set_result(None)


async def main(base, certificate, *paths):
    url = urllib.parse.urlsplit(base)
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost")
    configuration.load_verify_locations(cafile=certificate)
    async with connect(url.hostname, url.port, configuration=configuration, create_protocol=Client) as client:
        await asyncio.wait_for(fetch_all(client, url.netloc, paths), LIMIT_S)


async def fetch_all(client, host, paths):
    """Fetches all paths, in order and then concurrently."""
    for path in paths:
        await client.get(host, path)
    await asyncio.gather(*(client.get(host, path) for path in paths))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
