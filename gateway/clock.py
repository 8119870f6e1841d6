"""One timer for all streams that pace, and how late the loop runs.

A timer a stream costs more than the frames it sends, so streams that hold tokens back share one. Owns when frames are asked for; knows
nothing of what they are. Under load it asks less often (32, then 64 ms) before anything is late: pacers go by elapsed time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

SLOTS: Final = 4  # streams are spread over the frame, so that a thousand do not write in one turn of the loop; more slots cost wake-ups
WIDER: Final[tuple[float, ...]] = (1.0, 1.5, 3.0)  # frames of 21, 32 and 64 ms
BUSY: Final = 0.6  # share of its time that a turn may take before frames widen
IDLE: Final = 0.25  # and below which they narrow again
FAR_S: Final = 0.080  # a frame that is further off than this is left to a slow timer: the ticker would ask in vain
LOOK_S: Final = 0.1  # between two looks at the loop's lateness
_SHARE: Final = 0.1  # of the newest look in the mean, which so spans a second
_MOST_S: Final = 0.25  # that one look counts: a machine that stood still for once is not overloaded


class Member(Protocol):
    def on_tick(self, now: float) -> bool:
        """A frame is due; False: nothing is held any more, ask no longer."""


class Ticker:
    """`frame_s`: the time between two frames of one stream."""

    def __init__(self, loop: asyncio.AbstractEventLoop, frame_s: float) -> None:
        self._loop = loop
        self._frame_s = frame_s
        self._slots: list[set[Member]] = [set() for _ in range(SLOTS)]
        self._at = 0
        self._next_at = 0.0
        self._width = 0
        self._busy = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def frame_s(self) -> float:
        """The frame as it is now."""
        return self._frame_s * WIDER[self._width]

    def add(self, member: Member) -> int:
        """From the next turn on the member is asked each frame. Returns its slot, for `remove`."""
        slot = min(range(SLOTS), key=lambda index: len(self._slots[index]))
        self._slots[slot].add(member)
        if self._timer is None:
            self._next_at = self._loop.time() + self.frame_s / SLOTS
            self._timer = self._loop.call_at(self._next_at, self._turn)
        return slot

    def remove(self, member: Member, slot: int) -> None:
        self._slots[slot].discard(member)

    def _turn(self) -> None:
        began = self._loop.time()
        self._at = (self._at + 1) % SLOTS
        slot = self._slots[self._at]
        for member in tuple(slot):
            if not member.on_tick(began):
                slot.discard(member)
        if not any(self._slots):
            self._timer, self._width, self._busy = None, 0, 0.0
            return
        now = self._loop.time()
        step = self.frame_s / SLOTS
        late = max(0.0, began - self._next_at)
        self._adapt((now - began + late) / step)
        self._next_at = max(self._next_at + step, now + 0.001)  # uvloop spins on timers under a millisecond
        self._timer = self._loop.call_at(self._next_at, self._turn)

    def _adapt(self, share: float) -> None:
        self._busy += (min(share, 2.0) - self._busy) * 0.05  # over about 20 turns: a hiccup is not load
        if self._busy > BUSY and self._width < len(WIDER) - 1:
            self._width += 1
            self._busy = (BUSY + IDLE) / 2
        elif self._busy < IDLE and self._width:
            self._width -= 1
            self._busy = (BUSY + IDLE) / 2


class Lateness:
    """How late the loop does what it was asked to do: more work than time, whoever makes it, this process or others on the machine.

    mean_s: over about a second; 0 while `wanted` says that nobody has to be in time. Then no timer runs either.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wanted: Callable[[], bool]) -> None:
        self._loop = loop
        self._wanted = wanted
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self.mean_s = 0.0

    def over(self, limit_s: float) -> bool:
        """Whether it is above the limit, or was and is not yet below half of it."""
        self._over = self.mean_s > (0.5 * limit_s if self._over else limit_s)
        return self._over

    def watch(self) -> None:
        """From now on, if it is not watched already."""
        if self._timer is None:
            self._again()

    def _again(self) -> None:
        self._due = self._loop.time() + LOOK_S
        self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        late_s = min(max(self._loop.time() - self._due, 0.0), _MOST_S)
        self.mean_s += (late_s - self.mean_s) * _SHARE
        if self._wanted():
            self._again()
        else:
            self._timer, self.mean_s = None, 0.0
