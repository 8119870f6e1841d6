"""The slow clocks of one exchange: heartbeats, a silent upstream, a client that takes nothing.

Owns one alarm, which moves on with traffic: what has come nearer is set at once, what has moved on is seen when it rings. Frames due
soon are the shared ticker's, those further off this one's. It must not know of attempts.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from gateway.relay.alarm import Alarm
from gateway.relay.outlet import Outlet
from gateway.stream import Stream

_LOOK_S: Final = 1.0  # between two looks at a client that takes nothing


class Watched(Protocol):
    def woken(self, now: float) -> None:
        """A clock has rung and its heartbeat, if it wanted one, is written."""

    def stall(self) -> None:
        """The client has taken nothing for too long."""

    def crashed(self, error: BaseException) -> None:
        """A fault of ours: there is nobody above a timer who could be told."""


class Vigil:
    """`stall_s`: how long a client may take nothing; None for ever."""

    __slots__ = ("_alarm", "_loop", "_outlet", "_stall_s", "_stream", "_watched")

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: Stream, outlet: Outlet, stall_s: float | None, watched: Watched) -> None:
        self._loop = loop
        self._stream = stream
        self._outlet = outlet
        self._stall_s = stall_s
        self._watched: Watched | None = watched
        self._alarm = Alarm(loop, self._rung)

    def arm(self, *, ticked: bool) -> None:
        """Set the alarm for whatever is next. `ticked`: frames are the shared ticker's for now."""
        at = self._stream.wakeup()
        if not ticked:
            at = min(at, self._stream.next_frame())
        if self._outlet.blocked and self._stall_s is not None:
            at = min(at, self._outlet.blocked_since + self._stall_s)
        self._alarm.set(at)

    def wake(self, at: float) -> None:
        """For a frame that is far off; the slow clocks are set already."""
        self._alarm.set(at)

    def clear(self) -> None:
        self._alarm.clear()

    def close(self) -> None:
        """It rings no more, and lets go of whom it told."""
        self._alarm.close()
        self._watched = None

    def _rung(self) -> None:
        watched = self._watched
        if watched is None:
            return
        try:
            self._see_to(watched, self._loop.time())
        except Exception as error:
            watched.crashed(error)

    def _see_to(self, watched: Watched, now: float) -> None:
        outlet, stall_s = self._outlet, self._stall_s
        if not outlet.blocked:
            heartbeat = self._stream.tick(now)
            if heartbeat:
                outlet.frame(heartbeat)
            watched.woken(now)
        elif stall_s is not None and now >= outlet.blocked_since + stall_s:
            watched.stall()
        else:
            self._alarm.set(now + min(stall_s or _LOOK_S, _LOOK_S))
