"""How bursty a stream is: clusters, the most tokens at once, and the gaps between arrivals.

Owns the meter that counts them, the same on the upstream's and on the client's side. Knows nothing of what the tokens are, of labels or
of who reads the figures. Invariants: constant time amortised; bounded by the events of 50 ms; figures only grow.
A cluster is 24 tokens or more within 50 ms, counted in disjoint windows: the next window starts 50 ms after this one's first token.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from gateway.piece import Kind

CLUSTER_TOKENS: Final = 24.0  # the product's definition of a cluster, shared with those who read its counters
CLUSTER_WINDOW_S: Final = 0.050
_LEAST: Final = CLUSTER_TOKENS - 1e-9  # fractions of tokens do not sum up exactly
# resolves 1 to 50 ms
_PASSED: Final = 16  # entries that have passed before they are dropped
GAP_BOUNDS_S: Final[tuple[float, ...]] = (0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)


class Meter:
    """Counts one side of one stream. Times are seconds on the caller's monotonic clock, tokens are fractional.

    clusters: by kind, that of the token that completed the cluster. peak_tokens: the most in any 50 ms. longest_gap_s: between two
    arrivals. gap_counts: by kind, that of the arrival which ended the gap, one column more than `bounds_s`; empty without bounds.
    on_cluster(kind, tokens): called when a cluster's 50 ms are over, with all the tokens that they held; `finish` closes the last.
    """

    __slots__ = (
        "_amounts",
        "_blind_until",
        "_cluster_kind",
        "_cluster_tokens",
        "_oldest",
        "_times",
        "_total",
        "bounds_s",
        "clusters",
        "first_at",
        "gap_counts",
        "gap_sums_s",
        "last_at",
        "longest_gap_s",
        "on_cluster",
        "peak_tokens",
        "tokens",
    )

    def __init__(
        self,
        bounds_s: Sequence[float] = GAP_BOUNDS_S,
        on_cluster: Callable[[Kind, float], None] | None = None,
    ) -> None:
        self.clusters = [0] * len(Kind)
        self.tokens = 0.0
        self.peak_tokens = 0.0
        self.longest_gap_s = 0.0
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.bounds_s = bounds_s
        self.gap_sums_s = [0.0] * len(Kind)
        self.gap_counts = [[0] * (len(bounds_s) + 1) for _ in Kind] if bounds_s else []
        self.on_cluster = on_cluster
        # The last 50 ms, one entry for one moment; what lies before `_oldest` has passed. Two short lists take a tenth of a deque's memory.
        self._times: list[float] = []
        self._amounts: list[float] = []
        self._oldest = 0
        self._total = 0.0  # tokens in them
        self._blind_until = 0.0  # inside a cluster that has been counted; its tokens make no second one
        self._cluster_kind = Kind.CONTENT
        self._cluster_tokens = 0.0

    def add(self, now: float, tokens: float, kind: Kind) -> None:
        """`tokens` of `kind` passed at `now`."""
        last = self.last_at
        if last is None:
            self.first_at = now
        else:
            gap = now - last
            if gap > self.longest_gap_s:
                self.longest_gap_s = gap
            if gap and self.gap_counts:  # what comes at one moment has no gap in it
                self.gap_counts[kind][bisect_left(self.bounds_s, gap)] += 1
                self.gap_sums_s[kind] += gap
        self.last_at = now
        if not tokens:
            return
        self.tokens += tokens
        times, amounts, oldest = self._times, self._amounts, self._oldest
        while oldest < len(times) and now - times[oldest] >= CLUSTER_WINDOW_S:
            self._total -= amounts[oldest]
            oldest += 1
        if oldest == len(times):
            self._total = 0.0  # sheds the rounding of many subtractions
        if oldest == len(times) or oldest > _PASSED:
            del times[:oldest], amounts[:oldest]
            oldest = 0
        self._oldest = oldest
        if times and times[-1] == now:
            amounts[-1] += tokens
        else:
            times.append(now)
            amounts.append(tokens)
        self._total += tokens
        if self._total > self.peak_tokens:
            self.peak_tokens = self._total
        if self._cluster_tokens or self._total >= _LEAST:
            self._count(now, tokens, kind)

    def finish(self) -> None:
        """Nothing more comes: reports the cluster that is still open."""
        if self._cluster_tokens and self.on_cluster is not None:
            self.on_cluster(self._cluster_kind, self._cluster_tokens)
        self._cluster_tokens = 0.0

    def _count(self, now: float, tokens: float, kind: Kind) -> None:
        if self._cluster_tokens:
            if now < self._blind_until:
                self._cluster_tokens += tokens
                return
            self.finish()
        # What the window holds since the last cluster ended may make the next.
        fresh = bisect_left(self._times, self._blind_until, self._oldest)
        total = sum(self._amounts[fresh:])
        if total >= _LEAST:
            self.clusters[kind] += 1
            self._cluster_kind = kind
            self._cluster_tokens = total
            self._blind_until = self._times[fresh] + CLUSTER_WINDOW_S
