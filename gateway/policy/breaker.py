"""One upstream's breaker: whether it is asked at all. Pure: told what happened and the time.

    PASSING --failures in a row, or a rate of them--> TRIPPED --rest--> PROBING --success--> PASSING
                                                         ^------------ failure -----------'

Invariants: while PROBING one request is on its way, and no second; a probe that came to nothing (its client left) gives its place back;
what was begun before the trip neither closes it nor prolongs it.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, NamedTuple

from gateway.settings import Tripping

_SLICES: Final = 10  # of the window: outcomes are forgotten a tenth at a time


class State(Enum):
    PASSING = 0
    PROBING = 1
    TRIPPED = 2


class Permit(NamedTuple):
    """What an attempt got with its beginning and hands back with its outcome."""

    trips: int
    probe: bool


class Breaker:
    __slots__ = ("_in_a_row", "_probe_out", "_rules", "_slices", "_tripped_at", "_trips")

    def __init__(self, rules: Tripping) -> None:
        self._rules = rules
        self._trips = 0
        self._tripped_at: float | None = None
        self._probe_out = False
        self._in_a_row = 0
        self._slices: deque[list[float]] = deque()  # [until, requests, failures]

    @property
    def state(self) -> State:
        if self._tripped_at is None:
            return State.PASSING
        return State.PROBING if self._probe_out else State.TRIPPED

    def allows(self, now: float) -> bool:
        return self._tripped_at is None or (not self._probe_out and now >= self.rests_until)

    @property
    def rests_until(self) -> float:
        """When it may be probed; 0.0 while it passes."""
        return 0.0 if self._tripped_at is None else self._tripped_at + self._rules.rest

    def begin(self, now: float) -> Permit:
        """An attempt begins, whether `allows` or, where all are tripped, for want of a better one."""
        probe = self._tripped_at is not None and self.allows(now)
        self._probe_out |= probe
        return Permit(self._trips, probe)

    def succeeded(self, now: float, permit: Permit) -> None:
        if permit.probe:
            self._probe_out = False
        if self._tripped_at is not None and permit.trips == self._trips:  # asked since, and it works
            self._tripped_at = None
            self._slices.clear()
        if self._tripped_at is None:
            self._in_a_row = 0
            self._count(now, 0.0)

    def failed(self, now: float, permit: Permit) -> None:
        if permit.probe:
            self._probe_out = False
            self._tripped_at = now  # it rests anew
            return
        if self._tripped_at is not None or permit.trips != self._trips:
            return
        self._in_a_row += 1
        self._count(now, 1.0)
        requests = sum(each[1] for each in self._slices)
        failures = sum(each[2] for each in self._slices)
        if self._in_a_row >= self._rules.failures or (requests >= self._rules.requests and failures >= requests * self._rules.rate):
            self._tripped_at = now
            self._trips += 1
            self._in_a_row = 0
            self._slices.clear()

    def left(self, permit: Permit) -> None:
        """It came to nothing: the client left, or nothing was learned."""
        if permit.probe:
            self._probe_out = False

    def _count(self, now: float, failure: float) -> None:
        slices, width = self._slices, self._rules.window / _SLICES
        while slices and slices[0][0] <= now - self._rules.window:
            slices.popleft()
        if not slices or slices[-1][0] <= now:
            slices.append([now + width, 0.0, 0.0])
        slices[-1][1] += 1.0
        slices[-1][2] += failure
