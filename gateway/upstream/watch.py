"""Owns the one timer of a connection that carries several exchanges: it ends what is idle too long, and finds out who is dead.

While there are streams and nothing comes, the peer is pinged (RFC 9113, 6.7); if not a byte follows, it is gone. TCP's own
keep-alive does not see that while something unacknowledged is under way: a request to a peer that has vanished would wait for some
15 minutes. Comes by twice in `ping_after_s` at the most, whatever the traffic.

Whoever asks and is tired of waiting before that (a client's or the gateway's own clock) says so by `doubt`: the ping goes out at once, and
until its answer the connection is given to nobody. Else each new stream would begin the silence anew, on a connection that is dead.
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
    __slots__ = (
        "_clock",
        "_connection",
        "_idle_expiry_s",
        "_idle_until",
        "_loop",
        "_ping_after_s",
        "_ping_within_s",
        "_pinged",
        "_seen",
        "_timer",
    )

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
        self._pinged = False
        self._seen = 0
        self._idle_until: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def expired(self) -> bool:
        return self._idle_until is not None and self._clock() >= self._idle_until

    @property
    def doubted(self) -> bool:
        """A ping is under way, and nothing has come since."""
        return self._pinged and self._connection.reads == self._seen

    def idle(self) -> None:
        """It has no stream now."""
        self._idle_until = self._clock() + self._idle_expiry_s
        if not self.doubted:
            self._rest(self._idle_expiry_s)

    def busy(self) -> None:
        """It has one."""
        self._idle_until = None
        if not self.doubted:
            self._listen()

    def doubt(self) -> None:
        """A stream was given up, and not a byte had come since it began."""
        if not self.doubted:
            self._ask()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rest(self, for_s: float) -> None:
        self._pinged = False
        self._set(for_s, self._connection.drop)

    def _listen(self) -> None:
        self._pinged = False
        self._seen = self._connection.reads
        self._set(self._ping_after_s, self._heard)

    def _heard(self) -> None:
        if self._connection.reads != self._seen:
            self._listen()
        else:
            self._ask()

    def _ask(self) -> None:
        self._pinged = True
        self._seen = self._connection.reads
        self._connection.ping()
        self._set(self._ping_within_s, self._answered)

    def _answered(self) -> None:
        if self.doubted:
            self._connection.fail(httpx.ReadError(f"the upstream answered no ping within {self._ping_within_s:g} s"))
        elif self._idle_until is None:
            self._listen()
        else:
            self._rest(max(self._idle_until - self._clock(), 0.0))

    def _set(self, after_s: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(after_s, then)
