"""Many samples of one target as the figures that a report shows. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from gateway.bench.reading import Sample


@dataclass(frozen=True, slots=True)
class Summary:
    """Seconds and tokens; None where no request gave the figure. Percentiles of gaps are over all gaps of all whole streams.

    clusters: a stream's, the mean. largest_burst_tokens: the most in any 50 ms of any stream. longest_freeze_s: the longest gap of any.
    rate: tokens a second of a stream, the median. counted: share of streams whose upstream counted the tokens itself.
    """

    requests: int
    success: float
    first_p50_s: float | None
    first_p95_s: float | None
    first_p99_s: float | None
    gap_p50_s: float | None
    gap_p99_s: float | None
    longest_freeze_s: float | None
    clusters: float | None
    largest_burst_tokens: float | None
    rate: float | None
    total_p99_s: float | None
    tokens: float
    counted: float
    outcomes: dict[str, int]


def summary(samples: Sequence[Sample]) -> Summary:
    whole = [sample for sample in samples if sample.whole]
    firsts = [sample.first_s for sample in whole if sample.first_s is not None]
    gaps = [gap for sample in whole for gap in sample.gaps_s]
    rates = [sample.rate for sample in whole if sample.rate is not None]
    return Summary(
        requests=len(samples),
        success=len(whole) / len(samples) if samples else 0.0,
        first_p50_s=quantile(firsts, 0.50),
        first_p95_s=quantile(firsts, 0.95),
        first_p99_s=quantile(firsts, 0.99),
        gap_p50_s=quantile(gaps, 0.50),
        gap_p99_s=quantile(gaps, 0.99),
        longest_freeze_s=max((sample.longest_gap_s for sample in whole), default=None),
        clusters=sum(sample.clusters for sample in whole) / len(whole) if whole else None,
        largest_burst_tokens=max((sample.peak_tokens for sample in whole), default=None),
        rate=median(rates) if rates else None,
        total_p99_s=quantile([sample.total_s for sample in whole], 0.99),
        tokens=sum(sample.tokens for sample in samples),
        counted=sum(sample.counted for sample in whole) / len(whole) if whole else 0.0,
        outcomes=dict(Counter(sample.outcome for sample in samples).most_common()),
    )


def quantile(values: Iterable[float], share: float) -> float | None:
    """The least value that at least this share of the values does not exceed (nearest rank); None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(0, ceil(share * len(ordered) - 1e-9) - 1)]
