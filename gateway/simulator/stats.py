"""What the embedded upstream saw: requests, how they ended, and when a client was noticed to have gone.

Holds no prompts, answers or keys. Times are of the machine's monotonic clock, which all processes on it share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final, Literal

from gateway.simulator.encode import Json

Outcome = Literal["active", "finished", "cancelled"]
LOG_ENTRIES: Final = 256  # of the last requests; a test asks for far fewer


@dataclass(slots=True)
class Entry:
    """One request. sent: bytes of body handed to the socket; writes: in how many writes."""

    request_id: str
    method: str
    path: str
    started: float
    model: str | None = None
    stream: bool = False
    status: int = 0
    outcome: Outcome = "active"
    ended: float | None = None
    cancelled_at: float | None = None
    sent: int = 0
    writes: int = 0


class Stats:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.requests = self.active = self.finished = self.cancelled = 0
        self.log: deque[Entry] = deque(maxlen=LOG_ENTRIES)

    def begin(self, request_id: str, method: str, path: str) -> Entry:
        entry = Entry(request_id, method, path, started=self._clock())
        self.log.append(entry)
        self.requests += 1
        self.active += 1
        return entry

    def end(self, entry: Entry, outcome: Literal["finished", "cancelled"]) -> None:
        """The first call counts. finished: in the scenario's own way, which may be a reset; cancelled: the client left before."""
        if entry.outcome != "active":
            return
        entry.outcome, entry.ended = outcome, self._clock()
        self.active -= 1
        if outcome == "cancelled":
            entry.cancelled_at = entry.ended
            self.cancelled += 1
        else:
            self.finished += 1

    def report(self) -> Json:
        return {
            "now": self._clock(),
            "requests": self.requests,
            "active": self.active,
            "finished": self.finished,
            "cancelled": self.cancelled,
            "log": [asdict(entry) for entry in self.log],
        }
