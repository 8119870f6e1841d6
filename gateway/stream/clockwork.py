"""The slow clocks of one stream: when it was last heard and seen, and what is late. Pure: it is told the time."""

from __future__ import annotations

from typing import Final

from gateway.errors import Failure
from gateway.settings import Clocks

NEVER: Final = float("inf")


class Clockwork:
    """Times are seconds on the stream's clock.

    heard: the upstream last said something that means something. sent: the client last got a byte. closing_at: when a stream whose end is
    proven is closed, closing line or not.
    """

    __slots__ = ("_clocks", "_first_content_by", "_heartbeat_every", "_total_by", "closing_at", "heard", "sent")

    def __init__(self, now: float, clocks: Clocks, heartbeat_every: float) -> None:
        self._clocks = clocks
        self._heartbeat_every = heartbeat_every
        self._first_content_by = NEVER if clocks.first_content is None else now + clocks.first_content
        self._total_by = NEVER if clocks.total is None else now + clocks.total
        self.closing_at = NEVER
        self.heard = self.sent = now

    def content_came(self) -> None:
        self._first_content_by = NEVER

    def proven(self, now: float) -> None:
        self.closing_at = now + self._clocks.closing

    def heartbeat_due(self, now: float) -> bool:
        return now >= self.sent + self._heartbeat_every

    def silent(self, now: float) -> bool:
        return self._clocks.silence is not None and now >= self.heard + self._clocks.silence

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
            soonest = min(soonest, self._first_content_by, self._total_by)
            if self._clocks.silence is not None:
                soonest = min(soonest, self.heard + self._clocks.silence)
        return soonest
