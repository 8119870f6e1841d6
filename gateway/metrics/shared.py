"""Counts of several worker processes as one: each writes what it has counted into a file, and whoever is scraped adds them up.

Owns the files of one folder: `PID.json` of a worker that lives, `retired.json` of all that are gone. Invariants: a total never falls, also
not when a worker dies (what it counted since its last writing, a second at most, is lost with it); a file is replaced as a whole; the
folder holds one file a living worker and one more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.metrics.instruments import Counter, Gauge, Histogram, Labels

WRITE_S: Final = 1.0  # between two writings of a worker
GAUGES: Final = frozenset({"decluster_streams_active", "decluster_backlog_tokens", "decluster_breaker_state"})  # of the living only
_GREATEST: Final = frozenset({"decluster_breaker_state"})  # not added up
_RETIRED: Final = "retired.json"

Rows = list[tuple[Labels, list[float]]]
Snapshot = dict[str, Rows]  # instrument's name -> rows; a counter and a gauge have one number a row


def taken(instruments: Iterable[Counter | Histogram | Gauge]) -> Snapshot:
    """What they hold now."""
    found: Snapshot = {}
    for instrument in instruments:
        if isinstance(instrument, Histogram):
            found[instrument.name] = [(labels, [*counts, total]) for labels, counts, total in instrument.rows()]
        else:
            found[instrument.name] = [(labels, [value]) for labels, value in instrument.rows()]
    return found


def added(snapshots: Iterable[Mapping[str, Rows]]) -> Snapshot:
    """Row by row the sum; of some gauges the greatest. Rows of another length (another version's) are left out."""
    found: dict[str, dict[Labels, list[float]]] = {}
    for snapshot in snapshots:
        for name, rows in snapshot.items():
            mine = found.setdefault(name, {})
            for labels, values in rows:
                before = mine.get(tuple(labels))
                if before is None:
                    mine[tuple(labels)] = list(values)
                elif len(before) == len(values):
                    join = max if name in _GREATEST else _sum
                    mine[tuple(labels)] = [join(a, b) for a, b in zip(before, values, strict=True)]
    return {name: list(rows.items()) for name, rows in found.items()}


class Shared:
    """One worker's view of the folder."""

    def __init__(self, folder: Path, pid: int | None = None) -> None:
        self._folder = folder
        self._own = folder / f"{pid or os.getpid()}.json"

    def write(self, snapshot: Snapshot) -> None:
        """Raises OSError where the folder cannot be written in."""
        _put(self._own, snapshot)

    def others(self) -> list[Snapshot]:
        return [_got(path) for path in sorted(self._folder.glob("*.json")) if path != self._own]


def retire(folder: Path, pid: int) -> None:
    """A worker is gone: what it counted stays, its gauges and its file go. For the supervisor, which is the only one to do it."""
    path = folder / f"{pid}.json"
    gone = {name: rows for name, rows in _got(path).items() if name not in GAUGES}
    _put(folder / _RETIRED, added([_got(folder / _RETIRED), gone]))
    path.unlink(missing_ok=True)


def exposition(instruments: Iterable[Counter | Histogram | Gauge], others: Iterable[Snapshot]) -> bytes:
    """In Prometheus' text form: these instruments with what the others' snapshots add to them."""
    instruments = tuple(instruments)
    total = added([taken(instruments), *others])
    registry = CollectorRegistry()
    registry.register(_Sum([_with(instrument, total.get(instrument.name, [])) for instrument in instruments]))
    return generate_latest(registry)


class _Sum(Collector):
    def __init__(self, instruments: list[Counter | Histogram | Gauge]) -> None:
        self._instruments = instruments

    def collect(self) -> Iterable[Metric]:
        return [instrument.collect() for instrument in self._instruments]


def _with(instrument: Counter | Histogram | Gauge, rows: Rows) -> Counter | Histogram | Gauge:
    """One of the same name and labels with these rows."""
    if isinstance(instrument, Histogram):
        histogram = Histogram(instrument.name, instrument.help, instrument.bounds, instrument.labels)
        for labels, values in rows:
            if len(values) == len(instrument.bounds) + 2:
                histogram.add(labels, values[:-1], values[-1])
        return histogram
    if isinstance(instrument, Gauge):
        return Gauge(instrument.name, instrument.help, lambda: ((labels, values[0]) for labels, values in rows), instrument.labels)
    counter = Counter(instrument.name, instrument.help, instrument.labels)
    for labels, values in rows:
        counter.add(labels, values[0])
    return counter


def _sum(a: float, b: float) -> float:
    return a + b


def _put(path: Path, snapshot: Snapshot) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(snapshot))
    part.replace(path)


def _got(path: Path) -> Snapshot:
    """Empty where there is none, or none that can be read: a worker of another version."""
    try:
        found: Any = msgspec.json.decode(path.read_bytes(), type=dict[str, list[tuple[tuple[str, ...], list[float]]]])
    except (OSError, msgspec.DecodeError):
        return {}
    return dict(found)
