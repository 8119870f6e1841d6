"""Owns a socket's back-pressure in both directions, the part of an asyncio protocol that knows nothing of HTTP.

Invariant: reading is paused and resumed at most once each way, so that the loops need not forgive it. Whoever waits until the
socket takes more is not woken when it is lost: the connection cancels it.
"""

from __future__ import annotations

import asyncio

import httpx


class Flow(asyncio.Protocol):
    __slots__ = ("_loop", "_lost", "_paused", "_socket", "_writable", "_write_s")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._socket: asyncio.Transport
        self._lost = False  # the peer has ended, or we have
        self._paused = False  # reading
        self._writable: asyncio.Future[None] | None = None  # pending while the socket takes no more
        self._write_s: float | None = None  # the longest that it may take no more; None for ever

    @property
    def usable(self) -> bool:
        return not self._lost and not self._socket.is_closing()

    def write(self, data: bytes | memoryview) -> None:
        self._socket.write(data)

    async def drained(self) -> None:
        """Returns once the socket takes more. Raises httpx.WriteTimeout."""
        if self._writable is None:
            return
        try:
            async with asyncio.timeout(self._write_s):
                await self._writable
        except TimeoutError:
            raise httpx.WriteTimeout(f"the upstream took nothing of the request for {self._write_s:g} s") from None

    def pause_reading(self) -> None:
        if not self._paused and not self._lost:
            self._paused = True
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        if self._paused and not self._lost:
            self._paused = False
            self._socket.resume_reading()

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport  # type: ignore[assignment]  # uvloop's is no asyncio.Transport by class

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)
