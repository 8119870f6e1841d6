"""What the page is told: numbers, names of models and upstreams, how streams ended. Never text, never a key.

Everything is read from what is counted anyway; nothing is kept but the last streams' rows and the two longest freezes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from gateway.metrics.instruments import Histogram
from gateway.metrics.metrics import Metrics
from gateway.metrics.record import Record
from gateway.pacing.clusters import Meter
from gateway.piece import LABELS
from gateway.policy.attempts import Health
from gateway.relay.exchange import Exchange
from gateway.server.page.remedies import REMEDIES

ENDED_AT_MOST: Final = 40  # rows of streams that are over
SHOWN_AT_MOST: Final = 60  # of those that run: more than a person looks at; the rest is a number
_NAME_CHARACTERS: Final = 64

Row = dict[str, Any]


def row(record: Record, arrived: Meter | None, delivered: Meter | None, state: str, age_s: float) -> Row:
    """Of one stream. `in` and `out` are tokens; `freeze` the longest silence, in seconds; times since the request."""
    found: Row = {
        "id": record.request_id,
        "model": _name(record.model or "-"),
        "upstream": _name(record.upstream),
        "api": record.path.removeprefix("/v1/"),
        "state": state,
        "raw": record.raw,
        "age": round(age_s, 2),
        "first": None if record.first_token_s is None else round(record.first_token_s, 3),
        "beats": record.heartbeats_before + record.heartbeats_during,
    }
    for side, meter in (("in", arrived), ("out", delivered)):
        found[side] = 0.0 if meter is None else round(meter.tokens, 1)
        found[f"clusters_{side}"] = 0 if meter is None else sum(meter.clusters)
        found[f"freeze_{side}"] = 0.0 if meter is None else round(meter.longest_gap_s, 3)
        found[f"peak_{side}"] = 0.0 if meter is None else round(meter.peak_tokens, 1)
    return found


class Ended:
    """The last streams that are over, newest first; and the longest freezes of all that were."""

    def __init__(self) -> None:
        self.rows: deque[Row] = deque(maxlen=ENDED_AT_MOST)
        self.freeze_in_s = 0.0
        self.freeze_out_s = 0.0
        self.count = 0

    def add(self, record: Record) -> None:
        if not record.stream:
            return
        self.count += 1
        if record.arrived is not None:
            self.freeze_in_s = max(self.freeze_in_s, record.arrived.longest_gap_s)
        if record.delivered is not None:
            self.freeze_out_s = max(self.freeze_out_s, record.delivered.longest_gap_s)
        found = row(record, record.arrived, record.delivered, "ended", record.duration_s)
        found["end"] = record.reason
        found["remedy"] = REMEDIES.get(record.reason, "")
        self.rows.appendleft(found)


def running(exchange: Exchange, record: Record, now: float) -> Row:
    stream = exchange.stream
    age_s = now - stream.started
    found = row(record, stream.arrived, stream.delivered, stream.phase.value, age_s)
    found["first"] = None if stream.first_sent_at is None else round(stream.first_sent_at - stream.started, 3)
    found["held"] = round(stream.pacer.backlog_tokens, 1)
    found["beats"] = stream.heartbeats
    return found


def kind_of(arrived: Meter, before: tuple[float, ...] | None) -> tuple[str | None, tuple[float, ...]]:
    """Which kind of text came since the last look, told by whose gaps have grown; and what to compare with next time."""
    sums = tuple(arrived.gap_sums_s)
    if before is None:
        return None, sums
    grown = [index for index, (old, new) in enumerate(zip(before, sums, strict=True)) if new > old]
    return (LABELS[grown[-1]] if grown else None), sums


def totals(metrics: Metrics, ended: Ended) -> Row:
    """Since the process began. `overhead`: what the gateway added to first tokens, in seconds."""
    clusters = {"upstream": 0.0, "downstream": 0.0}
    for labels, value in metrics.clusters.rows():
        clusters[labels[0]] += value
    ends = {labels[0]: int(value) for labels, value in metrics.ends.rows() if value}
    return {
        "clusters_in": int(clusters["upstream"]),
        "clusters_out": int(clusters["downstream"]),
        "freeze_in": round(ended.freeze_in_s, 3),
        "freeze_out": round(ended.freeze_out_s, 3),
        "overhead_p50": quantile(metrics.overhead, 0.50),
        "overhead_p99": quantile(metrics.overhead, 0.99),
        "ended": ended.count,
        "heartbeats": int(sum(value for _, value in metrics.heartbeats.rows())),
        "ends": [{"reason": reason, "count": count, "remedy": REMEDIES.get(reason, "")} for reason, count in sorted(ends.items())],
    }


def upstreams(healths: Mapping[str, Health], now: float) -> list[Row]:
    """How each upstream and its keys do; keys by number only."""
    found = []
    for name, health in healths.items():
        usable, resting, refused = health.keys.states(now)
        told = [f"{count} {what}" for count, what in ((usable, "usable"), (resting, "resting"), (refused, "refused")) if count]
        keys = ", ".join(told) if health.keys.count else "the client's own"
        found.append({"name": _name(name), "breaker": health.breaker.state.name.lower(), "keys": keys})
    return found


def quantile(histogram: Histogram, share: float) -> float | None:
    """The upper bound of the bucket that the quantile falls into, over all labels; None of nothing, infinity told as the last bound."""
    counts = [0.0] * (len(histogram.bounds) + 1)
    for _, buckets, _ in histogram.rows():
        counts = [a + b for a, b in zip(counts, buckets, strict=True)]
    total = sum(counts)
    if not total:
        return None
    seen = 0.0
    for bound, count in zip((*histogram.bounds, histogram.bounds[-1]), counts, strict=True):
        seen += count
        if seen >= share * total:
            return float(bound)
    return None


def _name(text: str) -> str:
    """A client may call a model anything."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text[:_NAME_CHARACTERS])
