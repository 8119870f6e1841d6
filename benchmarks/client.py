"""The clients of the benchmarks: many streams, or many short requests, over plain sockets; what they saw is counted, not kept."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

from benchmarks import loads

_END: Final = b"\r\n0\r\n\r\n"  # with the line end before it: a head may end with a 0 too


@dataclass
class Seen:
    """events: that carry data. reads: of the socket, which is writes of what stands in the middle as long as the client keeps up."""

    events: int = 0
    reads: int = 0
    ended: int = 0
    failed: int = 0
    first_s: list[float] = field(default_factory=list)  # from the upstream's write of the first text to our read of it


def request(port: int, model: str, stream: bool, extra: bytes = b"") -> bytes:
    body = b'{"model":"%b","stream":%b,"messages":[{"role":"user","content":"play"}]}' % (model.encode(), b"true" if stream else b"false")
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n" % port
    return head + b"authorization: Bearer sk-bench\r\n%bcontent-length: %d\r\n\r\n%b" % (extra, len(body), body)


class Stream(asyncio.Protocol):
    """One stream to its end."""

    def __init__(self, seen: Seen, asking: bytes) -> None:
        self._seen = seen
        self._asking = asking
        self._first = True
        self._tail = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.transport.write(self._asking)

    def data_received(self, data: bytes) -> None:
        seen = self._seen
        seen.events += data.count(b"data: ")
        seen.reads += 1
        if self._first:
            at = data.find(loads.SENT)
            if at >= 0:
                self._first = False
                sent_ns = data[at + len(loads.SENT) :].partition(b'"')[0]
                seen.first_s.append((time.monotonic_ns() - int(sent_ns)) / 1e9)
        self._tail = data[-len(_END) :] if len(data) >= len(_END) else (self._tail + data)[-len(_END) :]
        if self._tail == _END:
            seen.ended += 1
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Requests(asyncio.Protocol):
    """Short requests one after another on one connection."""

    def __init__(self, seen: Seen, asking: bytes, count: int) -> None:
        self._seen, self._asking, self._left = seen, asking, count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.transport.write(self._asking)

    def data_received(self, data: bytes) -> None:
        self._got += data
        if b"\r\n\r\n" not in self._got or not self._got.endswith((b"}}", b"}}\n", b"}}\r\n\r\n", _END)):
            return
        self._seen.failed += not self._got.startswith(b"HTTP/1.1 200")
        self._seen.ended += 1
        self._got = b""
        self._left -= 1
        if self._left:
            self.transport.write(self._asking)
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._seen.failed += self._left
        if not self.done.done():
            self.done.set_result(None)


async def streams(port: int, model: str, count: int, seen: Seen, over_s: float, extra: bytes = b"") -> list[Stream]:
    """Starts so many streams, spread over `over_s` seconds."""
    loop = asyncio.get_running_loop()
    asking = request(port, model, True, extra)
    began = loop.time()
    out: list[Stream] = []
    for at in range(count):
        wait = began + over_s * at / count - loop.time()
        if wait > 0.001:
            await asyncio.sleep(wait)
        _, stream = await loop.create_connection(lambda: Stream(seen, asking), "127.0.0.1", port)
        out.append(stream)
    return out


async def requests(port: int, model: str, connections: int, each: int, seen: Seen, stream: bool = False, extra: bytes = b"") -> None:
    loop = asyncio.get_running_loop()
    asking = request(port, model, stream, extra)
    made = [await loop.create_connection(lambda: Requests(seen, asking, each), "127.0.0.1", port) for _ in range(connections)]
    await asyncio.gather(*(protocol.done for _, protocol in made))
