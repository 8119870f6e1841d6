"""Owns the one timer of a connection that carries several exchanges: it ends what is idle too long, and finds out who is dead.

While there are streams and nothing comes, the peer is pinged (RFC 9113, 6.7); if not a byte follows, it is gone. TCP's own
keep-alive does not see that while something unacknowledged is under way: a request to a peer that has vanished would wait for some
15 minutes. Comes by twice in `ping_after_s` at the most, whatever the traffic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import httpx


class Watched(Protocol):
    reads: int  # counts what came

    def ping(self) -> None: ...
    def drop(self) -> None: ...
    def fail(self, error: Exception) -> None: ...


class Watch:
    __slots__ = ("_clock", "_connection", "_idle_expiry_s", "_idle_until", "_loop", "_ping_after_s", "_ping_within_s", "_seen", "_timer")

    def __init__(
        self,
        connection: Watched,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        idle_expiry_s: float,
        ping_after_s: float,
        ping_within_s: float,
    ) -> None:
        """ping_after_s: of silence with open streams. ping_within_s: for the answer."""
        self._connection = connection
        self._loop = loop
        self._clock = clock
        self._idle_expiry_s = idle_expiry_s
        self._ping_after_s = ping_after_s
        self._ping_within_s = ping_within_s
        self._seen = 0
        self._idle_until: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def expired(self) -> bool:
        return self._idle_until is not None and self._clock() >= self._idle_until

    def idle(self) -> None:
        """It has no stream now."""
        self._idle_until = self._clock() + self._idle_expiry_s
        self._set(self._idle_expiry_s, self._connection.drop)

    def busy(self) -> None:
        """It has one."""
        self._idle_until = None
        self._listen()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _listen(self) -> None:
        self._seen = self._connection.reads
        self._set(self._ping_after_s, self._heard)

    def _heard(self) -> None:
        if self._connection.reads != self._seen:
            self._listen()
            return
        self._connection.ping()
        self._set(self._ping_within_s, self._answered)

    def _answered(self) -> None:
        if self._connection.reads != self._seen:
            self._listen()
            return
        self._connection.fail(httpx.ReadError(f"the upstream answered no ping within {self._ping_within_s:g} s"))

    def _set(self, after_s: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(after_s, then)
