"""Counters and histograms that cost an addition, read by prometheus-client at a scrape.

prometheus-client's own instruments take a lock and a label look-up an observation; streams count for themselves and hand in sums. Owns the
numbers and their exposition; knows nothing of what they count. One event loop writes and reads: no locks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

Labels = tuple[str, ...]


class Counter:
    """`name` without the `_total` that the exposition adds."""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self.name, self.help, self.labels = name, help, tuple(labels)
        self.values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, labels: Labels = (), amount: float = 1.0) -> None:
        self.values[labels] = self.values.get(labels, 0.0) + amount

    def rows(self) -> Iterator[tuple[Labels, float]]:
        return iter(self.values.items())

    def collect(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in self.values.items():
            family.add_metric(labels, value)
        return family


class Gauge:
    """Read at the scrape: `read` gives (labels, value)."""

    def __init__(self, name: str, help: str, read: Callable[[], Iterator[tuple[Labels, float]]], labels: Sequence[str] = ()) -> None:
        self.name, self.help, self.labels, self._read = name, help, tuple(labels), read

    def rows(self) -> Iterator[tuple[Labels, float]]:
        return self._read()

    def collect(self) -> Metric:
        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in self._read():
            family.add_metric(labels, value)
        return family


class Histogram:
    """`bounds`: upper bounds of the buckets, rising, without infinity."""

    def __init__(self, name: str, help: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        self.name, self.help, self.labels, self.bounds = name, help, tuple(labels), tuple(bounds)
        self._rows: dict[Labels, list[float]] = {}  # a count for each bucket and the one above all, then the sum

    def observe(self, labels: Labels, value: float) -> None:
        row = self._row(labels)
        row[bisect_left(self.bounds, value)] += 1
        row[-1] += value

    def add(self, labels: Labels, counts: Sequence[float], total: float) -> None:
        """Many observations at once: `counts` by bucket, one more than bounds."""
        row = self._row(labels)
        for index, count in enumerate(counts):
            row[index] += count
        row[-1] += total

    def rows(self) -> Iterator[tuple[Labels, list[float], float]]:
        """(labels, counts by bucket and above all, sum)."""
        return ((labels, row[:-1], row[-1]) for labels, row in self._rows.items())

    def _row(self, labels: Labels) -> list[float]:
        row = self._rows.get(labels)
        if row is None:
            row = self._rows[labels] = [0.0] * (len(self.bounds) + 2)
        return row

    def collect(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        for labels, row in self._rows.items():
            total, buckets = 0.0, []
            for bound, count in zip([*map(_number, self.bounds), "+Inf"], row, strict=False):
                total += count
                buckets.append((bound, total))
            family.add_metric(labels, buckets, sum_value=row[-1])
        return family


def _number(bound: float) -> str:
    return repr(float(bound))
