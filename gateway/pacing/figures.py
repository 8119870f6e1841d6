"""How good a delivered stream was, in the figures that the promise and the eye care about.

Owns the comparison of what arrived, what was delivered and what could have been. Knows nothing of pacers, text or the wire. Both
curves hold the same tokens, by the same measure, on one clock. Pure; linear but for sorting.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean, pstdev
from typing import Final

from gateway.pacing.clusters import CLUSTER_TOKENS, Meter
from gateway.pacing.optimum import Curve, Step, optimum, promised
from gateway.piece import Kind
from gateway.settings import Pacing

STALL_S: Final = 0.250  # of silence, which a reader takes for a stall
RATE_BIN_S: Final = 0.100  # over which the variation of the rate is taken
LATE_TOLERANCE_S: Final = 0.050  # machines are noisy
_TRACE: Final = 1e-3  # tokens; less than this is no delivery


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one delivered stream. Milliseconds where the name says so; `best` is the optimum under the same promise."""

    tokens: float
    first_added_ms: float  # first token: delivered minus arrived
    answer_added_ms: float  # first token of content
    late: float  # tokens delivered after their deadline, the tolerance past
    clusters: int
    peak_tokens: float  # most in any 50 ms
    best_peak_tokens: float
    burst_ratio: float  # peak over the best peak, or over 23 if that is more: 1 or less is best
    stall_ms: float  # silence beyond 250 ms, summed
    avoidable_stall_ms: float  # more of it than the optimum has
    rate_cv: float  # standard deviation over mean of the rate in bins of 100 ms
    best_rate_cv: float
    lag_p50_ms: float
    lag_p95_ms: float
    end_lag_ms: float  # last token: delivered minus arrived


def judge(arrived: Sequence[Step], delivered: Sequence[Step], settings: Pacing) -> Figures:
    """`arrived` and `delivered` as (seconds, tokens, kind); neither may be empty."""
    due = promised(arrived, settings)
    best = optimum(arrived, due)
    went = [(at, tokens) for at, tokens, _ in delivered]
    waits = sorted(lags(arrived, delivered))
    start, last = arrived[0][0], arrived[-1][0]
    peak, best_peak = peak_of(went), peak_of(best)
    end = max(last, start + RATE_BIN_S)
    return Figures(
        tokens=sum(tokens for _, tokens in went),
        first_added_ms=(went[0][0] - start) * 1e3,
        answer_added_ms=(_first(delivered, Kind.CONTENT) - _first(arrived, Kind.CONTENT)) * 1e3,
        late=late(due, went),
        clusters=clusters_of(went),
        peak_tokens=peak,
        best_peak_tokens=best_peak,
        burst_ratio=peak / max(CLUSTER_TOKENS - 1.0, best_peak),
        stall_ms=stall_s(went) * 1e3,
        avoidable_stall_ms=max(0.0, stall_s(went) - stall_s(best)) * 1e3,
        rate_cv=rate_cv(went, start, end),
        best_rate_cv=rate_cv(best, start, end),
        lag_p50_ms=waits[len(waits) // 2] * 1e3,
        lag_p95_ms=waits[int(len(waits) * 0.95)] * 1e3,
        end_lag_ms=(went[-1][0] - last) * 1e3,
    )


def clusters_of(curve: Curve) -> int:
    return _metered(curve).clusters[Kind.CONTENT]


def peak_of(curve: Curve) -> float:
    """The most tokens in any 50 ms."""
    return _metered(curve).peak_tokens


def lags(arrived: Sequence[Step], delivered: Sequence[Step]) -> list[float]:
    """Seconds that the last token of each delivered step had waited."""
    ends = list(accumulate(tokens for _, tokens, _ in arrived))
    out, total = [], 0.0
    for at, tokens, _ in delivered:
        total += tokens
        out.append(at - arrived[min(bisect_right(ends, total - 1e-6), len(arrived) - 1)][0])
    return out


def stall_s(curve: Curve) -> float:
    """Seconds of silence beyond 250 ms each, summed."""
    times = [at for at, tokens in curve if tokens > _TRACE]
    return sum(max(0.0, later - at - STALL_S) for at, later in pairwise(times))


def rate_cv(curve: Curve, start: float, end: float) -> float:
    """Standard deviation over mean of the rate from start to end; 0.0 where nothing came."""
    bins = [0.0] * max(1, int((end - start) / RATE_BIN_S))
    for at, tokens in curve:
        index = int((at - start) / RATE_BIN_S)
        if 0 <= index < len(bins):
            bins[index] += tokens
    mean = fmean(bins)
    return pstdev(bins) / mean if mean else 0.0


def late(due: Curve, delivered: Curve) -> float:
    """Tokens that were not out when their deadline and the tolerance had passed."""
    waiting = deque(delivered)
    out = owed = missed = 0.0
    for at, tokens in due:
        while waiting and waiting[0][0] <= at + LATE_TOLERANCE_S:
            out += waiting.popleft()[1]
        owed += tokens
        missed += min(tokens, max(0.0, owed - out - 1e-6))
    return missed


def _metered(curve: Curve) -> Meter:
    meter = Meter(bounds_s=())
    for at, tokens in curve:
        meter.add(at, tokens, Kind.CONTENT)
    return meter


def _first(steps: Sequence[Step], kind: Kind) -> float:
    return next((at for at, _, of in steps if of is kind), steps[0][0])
