"""HTTP/2 upstreams, each named after the trouble that it makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from support.http2 import EVENTS, Call, Http2Upstream, Link

GOAWAY, RST_STREAM, CONTINUATION = 0x7, 0x3, 0x9


def frame(kind: int, flags: int, stream: int, data: bytes = b"") -> bytes:
    return len(data).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + data


class Scripted(Http2Upstream):
    """Answers as the test's own function does; further requests as the last one given."""

    def __init__(self, *scripts: Callable[[Call], Any], **more: Any) -> None:
        super().__init__(**more)
        self.scripts = scripts

    async def respond(self, call: Call) -> None:
        answer = self.scripts[min(self.calls.index(call), len(self.scripts) - 1)](call)
        if answer is not None:
            await answer


class Holding(Http2Upstream):
    """Sends a head and a first event, and goes on when the test calls `go`."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.go = asyncio.Event()

    async def respond(self, call: Call) -> None:
        call.head()
        call.now(b"first")
        await self.go.wait()
        call.now(b"last", end=True)


class Flood(Http2Upstream):
    """Sends the head and then as much as the windows take, to a path that has `slow` in it; others get a short answer."""

    def __init__(self, size_bytes: int, **more: Any) -> None:
        super().__init__(**more)
        self.size_bytes = size_bytes
        self.sent_bytes: dict[Call, int] = {}

    async def respond(self, call: Call) -> None:
        if b"slow" not in (call.named(b":path") or b""):
            await super().respond(call)
            return
        call.head()
        piece = b"x" * 65536
        for _ in range(self.size_bytes // len(piece)):
            await call.data(piece)
            self.sent_bytes[call] = self.sent_bytes.get(call, 0) + len(piece)
            self.changed()
        call.end()


class Raw(Http2Upstream):
    """Answers each request's head at once with the bytes that a function makes of its stream's number; the head goes before."""

    def __init__(self, make: Callable[[int], bytes], *, head: bool = True, **more: Any) -> None:
        super().__init__(**more)
        self.make = make
        self.with_head = head

    async def respond(self, call: Call) -> None:
        if self.with_head:
            call.head()
        call.link.raw(self.make(call.number))


__all__ = ["EVENTS", "Call", "Flood", "Holding", "Link", "Raw", "Scripted", "frame"]
