"""Owns the writing of one request: head, then body, framed as the head says, no faster than the socket takes it.

Must not know of responses or of connections' states: it writes until it is done or cancelled.
Invariant: beside what the event loop buffers (its high-water mark) at most one piece of the body is held, plus the copy that
TLS makes of `SLICE_BYTES`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, Protocol

import httpx

from .request import Outgoing

# A request with a long conversation: one write, one TLS flight, no task. The loops' high-water mark has the same size.
AT_ONCE_BYTES: Final = 64 * 1024
# What is handed to the socket before asking whether it takes more: large enough to cost little, small enough to bound memory.
SLICE_BYTES: Final = 128 * 1024


class Line(Protocol):
    def write(self, data: bytes | memoryview) -> None: ...

    async def drained(self) -> None:
        """Returns once the socket takes more; raises what is to end the upload."""


class Lane(Protocol):
    """One stream's part of a connection."""

    async def some(self, data: memoryview) -> int:
        """Sends the first part of it, as much as may go, and says how much; waits while none may. Raises what is to end the upload."""

    def end(self) -> None:
        """The body is over."""


def at_once(outgoing: Outgoing) -> bytes | None:
    """The whole request as it is written in one piece; None if it is too large for that, or not at hand."""
    content = outgoing.content
    if content is None or len(content) > AT_ONCE_BYTES:
        return None
    if outgoing.chunked:
        return outgoing.head + (b"%x\r\n%b\r\n" % (len(content), content) if content else b"") + b"0\r\n\r\n"
    return outgoing.head + content


async def send(line: Line, outgoing: Outgoing, request: httpx.Request) -> None:
    """Writes the request. Raises what its body raises, and httpx.LocalProtocolError if that is not as long as the head says."""
    line.write(outgoing.head)
    measure = Measure(outgoing, request)
    pieces = aiter(_one(outgoing.content) if outgoing.stream is None else outgoing.stream)
    try:
        async for piece in pieces:
            if not piece:
                continue  # an empty chunk would be the end
            measure.add(len(piece))
            if outgoing.chunked:
                line.write(b"%x\r\n" % len(piece))
            rest = memoryview(piece)
            while rest:
                line.write(rest[:SLICE_BYTES])
                rest = rest[SLICE_BYTES:]
                await line.drained()
            if outgoing.chunked:
                line.write(b"\r\n")
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()  # begun here, so ended here, not whenever the collector comes by
    measure.end()
    if outgoing.chunked:
        line.write(b"0\r\n\r\n")
    await line.drained()


async def send_on(stream: Lane, outgoing: Outgoing, request: httpx.Request) -> None:
    """Writes the body of a request whose head is out, on a connection of several streams; raises as `send` does."""
    measure = Measure(outgoing, request)
    pieces = aiter(_one(outgoing.content) if outgoing.stream is None else outgoing.stream)
    try:
        async for piece in pieces:
            measure.add(len(piece))
            rest = memoryview(piece)
            while rest:
                rest = rest[await stream.some(rest) :]
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
    measure.end()
    stream.end()


class Measure:
    """Holds a body to the length that its head has promised, if it has."""

    def __init__(self, outgoing: Outgoing, request: httpx.Request) -> None:
        self._promised_bytes = None if outgoing.chunked else outgoing.length_bytes
        self._request = request
        self._sent_bytes = 0

    def add(self, count: int) -> None:
        self._sent_bytes += count
        if self._promised_bytes is not None and self._sent_bytes > self._promised_bytes:
            raise httpx.LocalProtocolError(
                f"the request's body is longer than its content-length of {self._promised_bytes} bytes", request=self._request
            )

    def end(self) -> None:
        if self._promised_bytes is not None and self._sent_bytes < self._promised_bytes:
            raise httpx.LocalProtocolError(
                f"the request's body ended after {self._sent_bytes} of the {self._promised_bytes} bytes of its content-length",
                request=self._request,
            )


async def _one(content: bytes | None) -> AsyncIterator[bytes]:
    if content:
        yield content
