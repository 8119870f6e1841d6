"""What the gateway counts, by name, and how a finished request is booked.

Owns the names, labels and buckets that dashboards depend on: OpenTelemetry's generative-AI names in Prometheus form, and our own.
Label values are bounded: a model that nobody configured and no upstream lists is `_other`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.metrics.instruments import Counter, Gauge, Histogram, Labels
from gateway.metrics.record import Record
from gateway.metrics.shared import Shared, exposition, taken
from gateway.pacing.clusters import GAP_BOUNDS_S, Meter
from gateway.pacing.holds import HOLD_S
from gateway.piece import LABELS, Kind

# Resolves 1 to 50 ms, where the gateway's own doing shows, and reaches to the minutes that reasoning takes.
SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
TOKENS: Final = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)
CLUSTER_TOKENS: Final = (24, 48, 96, 192, 384, 768, 1536, 3072)
MODELS_AT_MOST: Final = 1000  # learned from one upstream's list

_GEN_AI: Final = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
_TEXT_KINDS: Final = (Kind.CONTENT, Kind.REASONING, Kind.TOOL)


class Metrics(Collector):
    """`active`, `backlog` and `breakers`: read at a scrape, streams running, tokens held, each upstream's state."""

    def __init__(
        self,
        active: Callable[[], int],
        backlog: Callable[[], float],
        breakers: Callable[[], Iterator[tuple[str, int]]] = lambda: iter(()),
    ) -> None:
        self.shared: Shared | None = None
        self._models: set[str] = set()
        with_error = (*_GEN_AI, "error_type")
        self.client_duration = Histogram("gen_ai_client_operation_duration_seconds", "The upstream's answer, whole", SECONDS, with_error)
        self.client_first = Histogram("gen_ai_client_operation_time_to_first_chunk_seconds", "The upstream's first token", SECONDS, _GEN_AI)
        self.client_per_chunk = Histogram(
            "gen_ai_client_operation_time_per_output_chunk_seconds", "Between the upstream's arrivals", GAP_BOUNDS_S, _GEN_AI
        )
        self.server_duration = Histogram("gen_ai_server_request_duration_seconds", "The request as the client saw it", SECONDS, with_error)
        self.server_first = Histogram("gen_ai_server_time_to_first_token_seconds", "The client's first token", SECONDS, _GEN_AI)
        self.server_per_token = Histogram(
            "gen_ai_server_time_per_output_token_seconds",
            "Between the client's tokens after the first, the mean of a stream",
            SECONDS,
            _GEN_AI,
        )
        self.token_usage = Histogram(
            "gen_ai_client_token_usage", "Tokens as the upstream counted them", TOKENS, (*_GEN_AI, "gen_ai_token_type")
        )
        self.gaps = Histogram("decluster_stream_gap_seconds", "Between two frames with text", GAP_BOUNDS_S, ("side", "kind"))
        self.clusters = Counter("decluster_clusters", "24 tokens or more in 50 ms", ("side", "kind"))
        self.cluster_tokens = Histogram("decluster_cluster_tokens", "Most tokens in 50 ms, the most of a stream", CLUSTER_TOKENS, ("side",))
        self.holds = Histogram("decluster_hold_seconds", "How long a piece was held back", HOLD_S, ("kind",))
        self.deadline_releases = Counter("decluster_deadline_releases", "Frames above the ceiling because the lag promise asked")
        self.heartbeats = Counter("decluster_heartbeats", "Signs of life sent", ("phase",))
        self.ends = Counter("decluster_stream_end", "How streams ended", ("reason",))
        self.overhead = Histogram("decluster_overhead_seconds", "What the gateway added to the first token", SECONDS)
        self.attempts = Counter("decluster_upstream_attempts", "Requests sent to upstreams", ("upstream", "outcome"))
        self.fallbacks = Counter("decluster_fallbacks", "Requests that went to another target than their first")
        self.continuations = Counter("decluster_continuations", "Streams that died in the middle, and went on or not", ("mode", "result"))
        self.cost = Counter("decluster_cost_usd", "What answers cost, where their models' prices are known", ("model",))
        self.resumes = Counter("decluster_resumes", "Streams asked for again, and what became of that", ("result",))
        self.usage_missing = Counter("decluster_usage_missing", "Whole streams whose upstream sent no usage")
        self._gauges = (
            Gauge("decluster_streams_active", "Streams running", lambda: _single(active())),
            Gauge("decluster_backlog_tokens", "Tokens held back in all streams", lambda: _single(backlog())),
            Gauge(
                "decluster_breaker_state",
                "Of an upstream: 0 passing, 1 probing, 2 tripped",
                lambda: (((name,), float(state)) for name, state in breakers()),
                ("upstream",),
            ),
        )
        for side in ("upstream", "downstream"):  # there from the start: a proof needs its zero
            for kind in _TEXT_KINDS:
                self.clusters.add((side, LABELS[kind]), 0.0)
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def instruments(self) -> Iterator[Counter | Histogram | Gauge]:
        for instrument in (*vars(self).values(), *self._gauges):
            if isinstance(instrument, Counter | Histogram | Gauge):
                yield instrument

    def collect(self) -> Iterator[Metric]:
        for instrument in self.instruments():
            yield instrument.collect()

    def exposition(self) -> bytes:
        """In Prometheus' text form: of all workers, where there are several."""
        if self.shared is None:
            return generate_latest(self.registry)
        return exposition(self.instruments(), self.shared.others())

    def share(self) -> None:
        """Write what was counted for the other workers to add, where there are any."""
        if self.shared is not None:
            self.shared.write(taken(self.instruments()))

    def know(self, models: Iterator[str]) -> None:
        """Models that may stand in labels."""
        for model in models:
            if len(self._models) < MODELS_AT_MOST:
                self._models.add(model[:128])

    def tried(self, upstream: str, outcome: str) -> None:
        """An attempt is over."""
        self.attempts.add((upstream, outcome))

    def model(self, name: str | None) -> str:
        return name if name is not None and name in self._models else "_other"

    def book(self, record: Record) -> None:
        """A request has ended."""
        labels: Labels = (record.operation, record.provider, self.model(record.model))
        if record.follows:
            self.heartbeats.add(("during",), record.heartbeats_during)
            if record.resume:
                self.resumes.add((record.resume,))
            return
        error = (*labels, "" if record.reason == "whole" else record.reason)
        self.server_duration.observe(error, record.duration_s)
        if record.upstream_s is not None:
            self.client_duration.observe(error, record.upstream_s)
        self.overhead_of(record, labels)
        for tokens, kind in ((record.input_tokens, "input"), (record.output_tokens, "output")):
            if tokens is not None:
                self.token_usage.observe((*labels, kind), tokens)
        if not record.stream:
            return
        self.ends.add((record.reason,))
        self.heartbeats.add(("before",), record.heartbeats_before)
        self.heartbeats.add(("during",), record.heartbeats_during)
        self.deadline_releases.add((), record.deadline_releases)
        if record.usage_missing:
            self.usage_missing.add()
        for side, meter in (("upstream", record.arrived), ("downstream", record.delivered)):
            if meter is not None:
                self._book_side(side, meter, labels)
        for text_kind in _TEXT_KINDS:
            if record.holds and any(record.holds[text_kind]):
                self.holds.add((LABELS[text_kind],), record.holds[text_kind][:-1], record.holds[text_kind][-1])

    def overhead_of(self, record: Record, labels: Labels) -> None:
        if record.upstream_first_s is not None:
            self.client_first.observe(labels, record.upstream_first_s)
        if record.first_token_s is not None:
            self.server_first.observe(labels, record.first_token_s)
        if record.overhead_s is not None:
            self.overhead.observe((), record.overhead_s)

    def _book_side(self, side: str, meter: Meter, labels: Labels) -> None:
        meter.finish()
        gap_counts = [0.0] * (len(GAP_BOUNDS_S) + 1)
        for kind in _TEXT_KINDS:
            if meter.clusters[kind]:
                self.clusters.add((side, LABELS[kind]), meter.clusters[kind])
            counts = meter.gap_counts[kind]
            if any(counts):
                self.gaps.add((side, LABELS[kind]), counts, meter.gap_sums_s[kind])
                gap_counts = [a + b for a, b in zip(gap_counts, counts, strict=True)]
        if meter.peak_tokens >= CLUSTER_TOKENS[0]:
            self.cluster_tokens.observe((side,), meter.peak_tokens)
        if meter.first_at is None or meter.last_at is None:
            return
        if side == "upstream":
            self.client_per_chunk.add(labels, gap_counts, meter.last_at - meter.first_at)
        elif meter.tokens > 1:
            self.server_per_token.observe(labels, (meter.last_at - meter.first_at) / (meter.tokens - 1))


def _single(value: float) -> Iterator[tuple[Labels, float]]:
    yield (), value
