"""Owns the body of one response on its way from the connection to whoever reads it, by push or by iteration.

Must not know of parsers, sockets or the pool: of its connection it knows only the three things of `Source`.

Invariants: bytes arrive once and in order; `finish` is called at most once and last; after `abort` nothing is called any more.
What is held for a reader is bounded by `hold_bytes` and one read of the socket: beyond it the connection stops reading (TCP
back-pressure). After the end the body has let go of its connection, which may carry another request by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import httpx


class Sink(Protocol):
    """Whoever takes a body by push. Both are called straight from the event loop's read and must return at once."""

    def data(self, chunk: bytes) -> None:
        """All body bytes of one read of the socket, never empty. Not called while paused, nor after `end` or an abort."""

    def end(self, error: Exception | None) -> None:
        """Called once, last: None where the HTTP message was whole, else an httpx.TransportError.

        Only the end that came in the same read as the last data is told while paused."""


class Handle(Protocol):
    """What the owner of a pushed body can do with its flow."""

    def pause(self) -> None:
        """Reads no more from the socket: the upstream feels TCP back-pressure."""

    def resume(self) -> None:
        """Reads on."""

    def abort(self) -> None:
        """Closes the connection at once; neither data nor end is called any more. Harmless after the end."""


class Source(Protocol):
    """What a body needs of its connection, for as long as the message lasts."""

    def deliver_to(self, take: Callable[[bytes], None]) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def drop(self) -> None: ...


class Body(httpx.AsyncByteStream):
    """`httpx.Response.stream` of our transport. Either attach a sink, or iterate; not both.

    Iteration: cancelling a wait (a timer around `anext`) loses nothing, the next `anext` goes on where it was.
    """

    __slots__ = ("_ended", "_error", "_held", "_held_bytes", "_hold_bytes", "_read_s", "_sink", "_source", "_waiter", "request")

    def __init__(self, source: Source, request: httpx.Request, hold_bytes: int, read_s: float | None) -> None:
        """hold_bytes: held for a slow reader before reading pauses. read_s: the longest wait of an iteration, None for ever."""
        self._source: Source | None = source
        self.request = request
        self._hold_bytes = hold_bytes
        self._read_s = read_s
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._sink: Sink | None = None
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    # For whoever reads by push.

    def attach(self, sink: Sink) -> None:
        """From now on the body is pushed to `sink`; what has arrived already is delivered before this returns."""
        if self._sink is not None or self._waiter is not None:
            raise RuntimeError("the body has a reader already")
        self._sink = sink
        source = self._source
        if source is not None:
            source.deliver_to(sink.data)
            source.resume_reading()
        if self._held:
            sink.data(self._take())
        if self._ended and self._sink is sink:  # else aborted from within data()
            sink.end(self._error)

    def pause(self) -> None:
        if self._source is not None:
            self._source.pause_reading()

    def resume(self) -> None:
        if self._source is not None:
            self._source.resume_reading()

    def abort(self) -> None:
        source, self._source = self._source, None
        self._sink = None
        self._held.clear()
        self._held_bytes = 0
        if source is not None:
            source.drop()
        if not self._ended:
            self._ended = True
            self._error = httpx.ReadError("the response was closed by its reader", request=self.request)
        self._wake()

    # For whoever reads by iteration.

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        if self._sink is not None or self._waiter is not None:
            raise RuntimeError("the body has a reader already")
        if not self._held and not self._ended:
            await self._wait()
        if self._held:
            chunk = self._take()
            if self._source is not None:
                self._source.resume_reading()
            return chunk
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Closes the connection unless the message is over already, and forgets what was not read. Never fails, never waits."""
        self.abort()

    @property
    def ready(self) -> bool:
        """Whether a part, or the end, is there already."""
        return bool(self._held) or self._ended

    # For the connection.

    def hold(self, chunk: bytes) -> None:
        """Keeps what came before there was a sink."""
        self._held.append(chunk)
        self._held_bytes += len(chunk)
        if self._held_bytes > self._hold_bytes and self._source is not None:
            self._source.pause_reading()
        self._wake()

    def finish(self, error: Exception | None) -> None:
        """The message is over, whole if there is no error; the connection is no longer ours."""
        if self._ended:
            return
        self._source = None
        self._ended = True
        self._error = error
        if self._sink is not None:
            self._sink.end(error)
        self._wake()

    def _take(self) -> bytes:
        held = self._held
        chunk = held[0] if len(held) == 1 else b"".join(held)
        held.clear()
        self._held_bytes = 0
        return chunk

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        timer = loop.call_later(self._read_s, self._expire, self._read_s) if self._read_s is not None else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _expire(self, seconds: float) -> None:
        if self._waiter is None or self._waiter.done():
            return  # something came in the same turn of the loop
        source, self._source = self._source, None
        if source is not None:
            source.drop()
        self.finish(httpx.ReadTimeout(f"nothing came from the upstream for {seconds:g} s", request=self.request))
