"""How an upstream speaks: in bursts with silences between, steadily, or faster than the ceiling.

Owns the recognition of runs (arrivals without a silence) and of the silences between them, for one stream. Knows nothing of what is held or
promised. Seconds on the caller's monotonic clock; tokens are fractional. Invariants: constant time an arrival, but for a silence's
statistics (at most one in 40 ms); a silence that follows a longer run is no rhythm and is not learned: a steady stream that paused
once must not be held back for it.
"""

from __future__ import annotations

from math import exp
from typing import Final

from gateway.pacing.horizon import Horizon, Silences
from gateway.piece import Kind

# arrivals further apart belong to two runs; wider than the clumps that TCP and busy upstreams make of a steady stream
BURST_GAP_S: Final = 0.040
_RATE_MEMORY_S: Final = 8.0  # the mean rate forgets this fast: a dozen bursts of the usual half second
_SLICE_S: Final = 0.25  # over which the rate of a run is taken
_TELLING_S: Final = 0.1  # of a run show its rate well enough to know a fast stream from a slow one
_STEP_S: Final = 0.02  # the last token's share of a run's time: of a stream so slow that it would be taken for a fast one without


class Rhythm:
    """The arrivals of one stream.

    last_at: when the last token came. run_since, run_tokens: the run that is on, or was the last.
    silences: of the kind that arrives now. rate: the mean rate in tokens/s up to this run; 0.0 while unknown.
    """

    __slots__ = (
        "_horizon",
        "_kind",
        "_own",
        "_seen_s",
        "_seen_tokens",
        "_skipped_s",
        "_slice_before",
        "_slice_ends",
        "_slice_tokens",
        "last_at",
        "rate",
        "run_since",
        "run_tokens",
        "silences",
    )

    def __init__(self, horizon: Horizon) -> None:
        self._horizon = horizon
        self._own: list[Silences | None] = [None, None, None]
        self._kind: Kind | None = None
        self._seen_s = 0.0
        self._seen_tokens = 0.0
        self._skipped_s = 0.0  # seen since the last learned silence, in runs without rhythm
        self._slice_tokens = 0.0
        self._slice_before = 0.0
        self._slice_ends = 0.0
        self.last_at = 0.0
        self.run_since = 0.0
        self.run_tokens = 0.0
        self.rate = 0.0
        self.silences = horizon.of(Kind.CONTENT)

    def arrived(self, now: float, tokens: float, kind: Kind) -> None:
        """So many tokens came at once."""
        gap = now - self.last_at
        if self._kind is None:
            self.run_since = now
            self._slice_ends = now + _SLICE_S
            self._follow(kind)
        elif gap > BURST_GAP_S:
            self._run_ended(now, gap, kind is self._kind)
        if kind is not self._kind:
            self._follow(kind)
        self.last_at = now
        self.run_tokens += tokens
        if now >= self._slice_ends:
            late = now - self._slice_ends
            self._slice_before = self._slice_tokens if late < _SLICE_S else 0.0
            self._slice_tokens = 0.0
            self._slice_ends += _SLICE_S if late < _SLICE_S else late + _SLICE_S
        self._slice_tokens += tokens

    def run_rate(self) -> float:
        """Tokens a second over the last whole quarter of a second of this run; 0.0 before there was one."""
        return self._slice_before / _SLICE_S

    def steady_rate(self) -> float:
        """Tokens a second of a stream that passes: of this run, once it is long enough to tell, else the mean; 0.0 while unknown."""
        run = self.last_at - self.run_since
        if run < _TELLING_S:
            return self.rate
        return self._slice_before / _SLICE_S if self._slice_before else self.run_tokens / (run + _STEP_S)

    def _follow(self, kind: Kind) -> None:
        self._kind = kind
        own = self._own[kind]
        if own is None:
            own = self._own[kind] = Silences(self._horizon.of(kind))
        self.silences = own

    def _run_ended(self, now: float, gap: float, same_kind: bool) -> None:
        """The pause before an answer begins is no rhythm either: it comes once a stream, and can be as long as it likes."""
        seen = now - self.run_since
        run = self.last_at - self.run_since
        if run <= gap and same_kind:
            learned = seen + self._skipped_s
            self.silences.learn(gap, learned, self.run_tokens, run)
            self._horizon.silences[self._kind or 0].note(gap, learned, self.run_tokens, run)
            self._skipped_s = 0.0
        else:
            self._skipped_s += seen
        kept = exp(-seen / _RATE_MEMORY_S)
        self._seen_tokens = self._seen_tokens * kept + self.run_tokens
        self._seen_s = self._seen_s * kept + seen
        self.rate = self._seen_tokens / self._seen_s
        self.run_since = now
        self.run_tokens = 0.0
        self._slice_before = self._slice_tokens = 0.0
        self._slice_ends = now + _SLICE_S
