"""The upstream's side of an attempt: the body of its answer, which can be held back, let go or left to its end."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

from gateway.upstream.body import Handle, Sink
from gateway.upstream.push import push

LINGER_S: Final = 1.0  # after the last event, for the end of the HTTP message: then the connection can be used again


class Tap:
    """A sink before the sink: once it is closed, or only the end is waited for, nothing more is passed on, whatever was on its way.

    paused: nothing is read.
    """

    __slots__ = ("_closed", "_handle", "_lingering", "_loop", "_over", "_sink", "_timer", "paused")

    def __init__(self, loop: asyncio.AbstractEventLoop, sink: Sink) -> None:
        self._loop = loop
        self._sink: Sink | None = sink  # let go of when nothing more is for it: it knows this tap, and the two would hold each other
        self._handle: Handle | None = None
        self.paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self._lingering = False
        self._closed = False

    def open(self, response: httpx.Response) -> None:
        """What has come already is delivered before this returns."""
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # what an async transport gives
        handle = push(response.stream, self)
        if self._closed:
            handle.abort()
        elif not self._over:
            self._handle = handle

    def data(self, chunk: bytes) -> None:
        if self._sink is not None:
            self._sink.data(chunk)

    def end(self, error: Exception | None) -> None:
        self._over = True
        self._handle = None
        if self._timer is not None:
            self._timer.cancel()
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.end(error)

    def pause(self) -> None:
        if self._handle is not None and not self.paused:
            self.paused = True
            self._handle.pause()

    def resume(self) -> None:
        if self._handle is not None and self.paused:
            self.paused = False
            self._handle.resume()

    def linger(self) -> None:
        """Nothing more is wanted but the end of the HTTP message, shortly."""
        if self._handle is not None and not self._lingering:
            self._lingering = True
            self._sink = None
            self.resume()
            self._timer = self._loop.call_later(LINGER_S, self.close)

    def close(self) -> None:
        """Let go at once: the connection is closed if the message is not over."""
        self._closed = True
        self._sink = None
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.abort()
