"""Event loops on a virtual clock: clock and timers alone, where time passes when the test says so; or whole, where it leaps to what is next."""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Timer:
    def __init__(self, at: float, call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.at, self.call, self.arguments, self.cancelled = at, call, arguments, False

    def cancel(self) -> None:
        self.cancelled = True

    def __lt__(self, other: Timer) -> bool:
        return self.at < other.at


class VirtualLoop:
    """What gateway code asks of an event loop for timers. costs_s: time that each call takes, for a loop under load."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[..., Any], *arguments: Any) -> Timer:
        timer = Timer(at, call, arguments)
        heapq.heappush(self.timers, timer)
        return timer

    def call_later(self, delay: float, call: Callable[..., Any], *arguments: Any) -> Timer:
        return self.call_at(self.now + delay, call, *arguments)

    def call_soon(self, call: Callable[..., Any], *arguments: Any) -> Timer:
        return self.call_at(self.now, call, *arguments)

    def run_until(self, at: float) -> None:
        """All timers up to then, each at its time or, where an earlier one took long, after it."""
        while self.timers and self.timers[0].at <= at:
            timer = heapq.heappop(self.timers)
            if not timer.cancelled:
                self.now = max(self.now, timer.at)
                timer.call(*timer.arguments)
        self.now = max(self.now, at)

    @property
    def waiting(self) -> int:
        return sum(not timer.cancelled for timer in self.timers)


class _Leaping(selectors.SelectSelector):
    """Waits for nothing: what would be waited is put on the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "all wait, and nothing will happen any more"
            self.now += timeout
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    """A whole event loop on a virtual clock, for coroutines that wait for time and for each other, not for sockets."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """To its end, on a loop of its own whose clock begins at 0."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(coroutine)
