"""The upstream's side of an exchange: the body of its answer, which can be held back, let go or left to its end."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

from gateway.upstream.body import Handle, Sink
from gateway.upstream.push import push

LINGER_S: Final = 1.0  # after the last event, for the end of the HTTP message: then the connection can be used again


class Tap:
    """over: the body has ended. lingering: only its end is waited for, what comes is nobody's."""

    __slots__ = ("_handle", "_loop", "_paused", "_timer", "lingering", "over")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: Handle | None = None
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self.over = False
        self.lingering = False

    def open(self, response: httpx.Response, sink: Sink) -> None:
        """What has come already is delivered before this returns."""
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # what an async transport gives
        handle = push(response.stream, sink)
        if not self.over:
            self._handle = handle

    def ended(self) -> None:
        """The sink was told the end."""
        self.over = True
        self._handle = None
        if self._timer is not None:
            self._timer.cancel()

    def pause(self) -> None:
        if self._handle is not None and not self._paused:
            self._paused = True
            self._handle.pause()

    def resume(self) -> None:
        if self._handle is not None and self._paused:
            self._paused = False
            self._handle.resume()

    def linger(self) -> None:
        """Nothing more is wanted but the end of the HTTP message, shortly."""
        if self._handle is not None and not self.lingering:
            self.lingering = True
            self.resume()
            self._timer = self._loop.call_later(LINGER_S, self.close)

    def close(self) -> None:
        """Let go at once: the connection is closed if the message is not over."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.abort()
