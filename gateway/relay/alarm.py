"""A timer for what is far off and moves on with traffic: set sooner at any time, never moved later; whoever is rung sets it anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_STEP_S: Final = 0.001  # uvloop spins on timers under a millisecond


class Alarm:
    """`ring` is called at the time set, in loop seconds, or up to a millisecond after."""

    __slots__ = ("_at", "_handle", "_loop", "_ring")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0.0

    def set(self, at: float) -> None:
        """Ring at `at`, or before if it is set so already; infinity sets nothing."""
        if at == float("inf") or (self._handle is not None and self._at <= at):
            return
        if self._handle is not None:
            self._handle.cancel()
        self._at = at
        self._handle = self._loop.call_at(max(at, self._loop.time()) + _STEP_S, self._fire)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._ring()

    def close(self) -> None:
        """It rings no more, and lets go of whom it rang."""
        self.clear()
        self._ring = _nobody


def _nobody() -> None:
    """Whom a closed alarm rings."""
