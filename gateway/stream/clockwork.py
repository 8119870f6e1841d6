"""The slow clocks of one stream: when it was last heard and seen, and what is late. Pure: it is told the time."""

from __future__ import annotations

from typing import Final

from gateway.errors import Failure
from gateway.settings import Clocks

NEVER: Final = float("inf")
_PATIENCE: Final = 3.0  # so many times clocks.closing for an end that could be none


class Clockwork:
    """Times are seconds on the stream's clock.

    heard: the upstream last said something that means something. sent: the client last got a byte. closing_at: when a stream whose end is
    proven is closed, closing line or not. speaking: silence counts, since content came; before it first_content does, if it is on.
    hanging_at: when an event that lacks only its blank line is taken for whole.
    """

    __slots__ = ("_clocks", "_first_content_by", "_heartbeat_every", "_total_by", "closing_at", "hanging_at", "heard", "sent", "speaking")

    def __init__(self, now: float, clocks: Clocks, heartbeat_every: float) -> None:
        self._clocks = clocks
        self._heartbeat_every = heartbeat_every
        self._total_by = NEVER if clocks.total is None else now + clocks.total
        self.sent = now
        self.restart(now)

    def restart(self, now: float) -> None:
        """Another attempt has the time that one has; the client's clocks go on."""
        self._first_content_by = NEVER if self._clocks.first_content is None else now + self._clocks.first_content
        self.closing_at = self.hanging_at = NEVER
        self.heard = now
        self.speaking = self._clocks.first_content is None

    def content_came(self) -> None:
        self._first_content_by = NEVER
        self.speaking = True

    def proven(self, now: float, doubtful: bool) -> None:
        self.closing_at = now + self._clocks.closing * (_PATIENCE if doubtful else 1.0)

    def hangs(self, now: float, hanging: bool) -> None:
        self.hanging_at = now + self._clocks.closing if hanging else NEVER

    def heartbeat_due(self, now: float) -> bool:
        return now >= self.sent + self._heartbeat_every

    def silent(self, now: float) -> bool:
        return self.speaking and self._clocks.silence is not None and now >= self.heard + self._clocks.silence

    def late(self, now: float) -> Failure | None:
        """What the upstream has let pass; silence is another question."""
        if now >= self._total_by:
            return Failure("upstream_total_timeout", "The answer took longer than clocks.total allows.")
        if now >= self._first_content_by:
            return Failure("upstream_first_content_timeout", "The upstream said nothing within clocks.first_content.")
        return None

    def wakeup(self, wants_upstream: bool) -> float:
        """When the first of them wants to be looked at."""
        soonest = min(self.sent + self._heartbeat_every, self.closing_at)
        if wants_upstream:
            soonest = min(soonest, self._first_content_by, self._total_by, self.hanging_at)
            if self.speaking and self._clocks.silence is not None:
                soonest = min(soonest, self.heard + self._clocks.silence)
        return soonest
