"""What one stream is made of, and what can be told of it at any moment. What happens to it is machine.py's.

All times are seconds on one monotonic clock, passed in.
"""

from __future__ import annotations

from enum import Enum

from gateway.dialects.base import Dialect, Style
from gateway.errors import Failure
from gateway.pacing.clusters import Meter
from gateway.pacing.unpaced import Unpaced
from gateway.piece import Piece
from gateway.policy.holding import Releases
from gateway.policy.timing import Timing
from gateway.settings import Clocks
from gateway.stream.clockwork import NEVER, Clockwork
from gateway.wire.sse import Decoder


class Phase(Enum):
    HOLDING = "holding"
    OPEN = "open"
    SEVERED = "severed"
    CLOSING = "closing"
    ENDED = "ended"


class State:
    """failure: what ended it, if it was not whole. reason: how it ended, for metrics (one of a fixed list: `whole`, or a failure's code).
    wants_upstream: False once nothing more need be read. straight: what leaves in one turn is one frame, with nothing of ours in it.
    """

    __slots__ = (
        "_clockwork",
        "_decoder",
        "_event_bytes",
        "_heartbeat_style",
        "_held_back",
        "_held_back_bytes",
        "_unpaced",
        "arrived",
        "delivered",
        "dialect",
        "failure",
        "first_content_at",
        "first_sent_at",
        "heartbeats",
        "heartbeats_before",
        "pacer",
        "phase",
        "shed_tokens",
        "splits",
        "started",
        "straight",
        "timing",
        "wants_upstream",
    )

    def __init__(
        self,
        now: float,
        dialect: Dialect,
        pacer: Releases,
        clocks: Clocks,
        *,
        heartbeat_every: float,
        heartbeat_style: Style,
        event_bytes: int,
        arrived: Meter | None = None,
        delivered: Meter | None = None,
        splits: bool = False,
        timing: Timing | None = None,
    ) -> None:
        """`splits`: the pacer hands out one moment's pieces in several frames, so `due` is to be asked until it gives nothing."""
        self.dialect = dialect
        self.pacer = pacer
        self.arrived = arrived or Meter()
        self.delivered = delivered or Meter()
        self.phase = Phase.HOLDING
        self.failure: Failure | None = None
        self.wants_upstream = True
        self.splits = splits
        self.straight = not splits and timing is None
        self._unpaced = pacer if isinstance(pacer, Unpaced) else None
        self.timing = timing
        self.started = now
        self.first_content_at: float | None = None
        self.first_sent_at: float | None = None
        self.heartbeats = 0
        self.shed_tokens = 0.0
        self.heartbeats_before = 0  # of them, those before the first content
        self._heartbeat_style: Style = heartbeat_style
        self._clockwork = Clockwork(now, clocks, heartbeat_every)
        self._decoder = Decoder(event_bytes, lenient=dialect.closes)
        self._held_back: list[Piece] = []
        self._held_back_bytes = 0
        self._event_bytes = event_bytes
        self._made()

    def _made(self) -> None:
        """What a kind of stream has of its own begins here."""

    @property
    def pacing(self) -> bool:
        """Whether `due` has something to hand out sooner or later without another arrival."""
        return not self.pacer.empty

    @property
    def closes_soon(self) -> bool:
        """Whether `wakeup` is nearer than it was, now that bytes came."""
        return self.dialect.settled or self._decoder.hanging

    def next_frame(self) -> float:
        """When `due` has something to hand out without another arrival."""
        at = self.pacer.next_wakeup()
        return NEVER if at is None else at

    @property
    def held_bytes(self) -> int:
        """What waits for its time. A preamble that waits for the first content is bounded for itself: it leaves at `event_bytes`."""
        return self.pacer.held_bytes

    @property
    def reason(self) -> str:
        return "whole" if self.failure is None else self.failure.code
