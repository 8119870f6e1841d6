"""An upstream that speaks HTTP/1.1 and HTTP/2, by a connection's first bytes: `python -m benchmarks.either [PORT]` (prints its port).

An event is a chunk or a DATA frame of its own, as from a server that flushes after each. The path names the way in which they come; one
that names none is played FIRST. Under TLS where BENCH_TLS names a folder with own.pem.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import uvloop
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

from benchmarks import loads

PREFACE: Final = b"PRI * HTTP/2"
EVENT: Final = (
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1790000000,"model":"m","choices":[{"index":0,'
    b'"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
LAST: Final = EVENT.replace(b'{"content":" word"}', b"{}").replace(b"null", b'"stop"') + b"data: [DONE]\n\n"
TYPE: Final = (b"content-type", b"text/event-stream")
Framing = Callable[[bytes, bool], bytes]  # of the data, and whether it is the last


@dataclass(frozen=True)
class Way:
    """every_s between writes of so many events, for so long. timed: the first text comes at once and tells when it was sent."""

    name: str
    streams: int
    events: int
    every_s: float
    lasts_s: float
    timed: bool = False


WAYS: Final = (
    Way("trickle", 200, 1, 0.01, 4.0),
    Way("bursts", 50, 80, 0.1, 4.0),
    Way("short", 1, 1, 0.0, 4.0),
)
FIRST: Final = Way("first", 100, 1, 0.05, 1.5, timed=True)


class Upstream(asyncio.Protocol):
    def __init__(self) -> None:
        self.h2: H2Connection | None = None
        self.transport: Any = None
        self.buffer = b""
        self.loop = asyncio.get_running_loop()
        self.paths: dict[int, bytes] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.h2 is None and not self.buffer and data.startswith(PREFACE):
            self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
            self.h2.initiate_connection()
        if self.h2 is not None:
            self.answer_http2(self.h2, data)
            return
        self.buffer += data
        while b"}]}" in self.buffer:
            request, _, self.buffer = self.buffer.partition(b"}]}")
            self.play(request.split(b" ")[1], b"HTTP/1.1 200 OK\r\n%b: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % TYPE, _chunk)

    def answer_http2(self, h2: H2Connection, data: bytes) -> None:
        for event in h2.receive_data(data):
            if isinstance(event, RequestReceived):
                self.paths[event.stream_id] = dict(event.headers)[b":path"]
            elif isinstance(event, DataReceived):
                h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                number = event.stream_id
                h2.send_headers(number, [(b":status", b"200"), TYPE])
                head = h2.data_to_send()
                h2.streams[number].end_stream()  # frames are written by hand: h2 would cost more than what is measured
                self.play(self.paths.pop(number), head, _frames(number))
        self.transport.write(h2.data_to_send())

    def play(self, path: bytes, head: bytes, framed: Framing) -> None:
        way = next((way for way in WAYS if way.name.encode() in path), FIRST)
        event, last = framed(EVENT, False), framed(LAST, True)
        if way.timed:
            head += framed(loads.OPENING + loads.first_text(time.monotonic_ns()), False)
        if not way.every_s:
            self.transport.write(head + event * way.events + last)
            return
        self.transport.write(head)
        until = self.loop.time() + way.lasts_s
        self.loop.call_later(way.every_s * (id(head) // 16 % 97) / 97, self.step, way, until, event * way.events, last)

    def step(self, way: Way, until: float, events: bytes, last: bytes) -> None:
        if self.loop.time() >= until:
            self.transport.write(last)
            return
        self.transport.write(events)
        self.loop.call_later(way.every_s, self.step, way, until, events, last)


def _chunk(data: bytes, last: bool) -> bytes:
    return b"%x\r\n%b\r\n%b" % (len(data), data, b"0\r\n\r\n" if last else b"")


def _frames(number: int) -> Framing:
    return lambda data, last: len(data).to_bytes(3, "big") + (b"\0\1" if last else b"\0\0") + number.to_bytes(4, "big") + data


async def serve(port: int) -> None:
    tls = None
    if folder := os.environ.get("BENCH_TLS"):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(f"{folder}/own.pem")
        tls.set_alpn_protocols(["h2", "http/1.1"])
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port, backlog=4096, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]) if sys.argv[1:] else 0))
