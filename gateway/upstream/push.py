"""Owns the push of a foreign httpx stream: the same attach, pause, resume and abort over any `httpx.AsyncByteStream`.

Our own `Body` is pushed from the socket's read itself; everything else (a mock, respx, httpx's own transport behind a proxy)
has one task that reads it. Must not know what a sink does with the bytes.

Invariants: a read is never cancelled for a timer (that would end httpx's streams), only by `abort`; the stream is closed
whichever way it ends, and before `end` is told; at most one chunk is held while paused.
"""

from __future__ import annotations

import asyncio
import contextlib

import httpx

from .body import Body, Handle, Sink


def push(stream: httpx.AsyncByteStream, sink: Sink) -> Handle:
    """Pushes the stream to the sink from now on. To be called in the event loop."""
    if isinstance(stream, Body):
        stream.attach(sink)
        return stream
    return Reader(stream, sink)


class Reader:
    """A task that reads a stream and pushes what comes. Nothing is told while paused, not even the end."""

    __slots__ = ("_gate", "_sink", "_started", "_stream", "_task")

    def __init__(self, stream: httpx.AsyncByteStream, sink: Sink) -> None:
        self._stream = stream
        self._sink: Sink | None = sink
        self._gate: asyncio.Event | None = None  # there while paused
        self._started = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def pause(self) -> None:
        if self._gate is None:
            self._gate = asyncio.Event()

    def resume(self) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.set()

    def abort(self) -> None:
        self._sink = None
        if self._started:  # else a cancelled task would not even begin, and nobody would close the stream
            self._task.cancel()

    async def _run(self) -> None:
        self._started = True
        error: Exception | None = None
        try:
            if self._sink is not None:
                await self._read()
        except Exception as failure:
            error = failure
        finally:
            with contextlib.suppress(Exception):  # what was read is whole or not whether or not closing works
                await self._stream.aclose()
        await self._flowing()
        if self._sink is not None:
            sink, self._sink = self._sink, None
            sink.end(error)

    async def _read(self) -> None:
        async for chunk in self._stream:
            await self._flowing()
            if self._sink is None:
                return
            if chunk:
                self._sink.data(chunk)
                await self._flowing()  # before the next read

    async def _flowing(self) -> None:
        while self._gate is not None:
            await self._gate.wait()
