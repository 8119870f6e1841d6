"""The recordings of this process, by name, within a bound for all of them.

Owns which are held and for how long. Invariants: an ended one goes after `hold_s`, sooner where there is no room; of a running one only
what a client has had goes; the names of the last that went are remembered, so that whoever asks for one is told so.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from gateway.journal.recording import Recording

REMEMBERED: Final = 10_000  # names of those that are gone: 64 bytes each
RECORDING_BYTES: Final = 2048  # what a recording takes besides its entries
_KEPT: Final = 15 / 16  # of the bound when room is made, so that it is not made anew for each event


class Memory:
    def __init__(self, loop: asyncio.AbstractEventLoop, *, bound_bytes: int, hold_s: float) -> None:
        self._loop = loop
        self._bound_bytes = bound_bytes
        self._hold_s = hold_s
        self._held: dict[str, Recording] = {}
        self._ended: OrderedDict[str, float] = OrderedDict()  # name -> until when; in the order in which they ended
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._responses: dict[str, str] = {}
        self._response_of: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tight_bytes = 0  # what was left when room was last made: nothing more could go then
        self.bytes = 0

    @property
    def full(self) -> bool:
        return self.bytes > self._bound_bytes

    def __len__(self) -> int:
        return len(self._held)

    def get(self, name: str) -> Recording | None:
        return self._held.get(name)

    def by_response(self, response: str) -> Recording | None:
        return self._held.get(self._responses.get(response, ""))

    def is_gone(self, name: str) -> bool:
        return name in self._gone

    def add(self, recording: Recording) -> None:
        self._gone.pop(recording.name, None)
        self._held[recording.name] = recording
        self.bytes += RECORDING_BYTES

    def name_response(self, response: str, recording: Recording) -> None:
        self._responses[response] = recording.name
        self._response_of[recording.name] = response

    def drop(self, recording: Recording, *, remember: bool = False) -> None:
        """Nobody finds it any more; whoever follows it still does."""
        name = recording.name
        if self._held.get(name) is not recording:
            return
        del self._held[name]
        self._ended.pop(name, None)
        self._responses.pop(self._response_of.pop(name, ""), None)
        self.bytes -= recording.held_bytes + RECORDING_BYTES
        if remember:
            self._gone[name] = None
            if len(self._gone) > REMEMBERED:
                self._gone.popitem(last=False)

    def came(self, recording: Recording, size: int) -> None:
        """So much was added to it."""
        if self._held.get(recording.name) is recording:
            self.bytes += size

    def went(self, recording: Recording, size: int) -> None:
        self.came(recording, -size)

    def make_room(self) -> None:
        """The oldest of the ended go first, then what clients have had of those that run."""
        step = self._bound_bytes * (1 - _KEPT) / 4
        if self.bytes <= max(self._bound_bytes, self._tight_bytes + step):
            return
        aim = self._bound_bytes * _KEPT
        for name in tuple(self._ended):
            if self.bytes > aim and not self._held[name].followers:
                self.drop(self._held[name], remember=True)
        for recording in tuple(self._held.values()):
            if self.bytes > aim:
                kept = max(0.0, recording.held_bytes - (self.bytes - aim))
                self.went(recording, recording.trim(kept, recording.floor_bytes))
        self._tight_bytes = self.bytes if self.full else 0

    def end(self, recording: Recording) -> None:
        """It has ended: it is held a while longer."""
        if self._held.get(recording.name) is recording:
            self._ended[recording.name] = self._loop.time() + self._hold_s
            self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._ended:
            self._timer = self._loop.call_at(next(iter(self._ended.values())) + 0.001, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        for name, until in tuple(self._ended.items()):
            if until > now:
                break
            self.drop(self._held[name], remember=True)
        self._arm()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._held.clear()
        self._ended.clear()
        self.bytes = 0
