"""OpenTelemetry spans, off by default: one a request with the generative-AI attributes, a child for each attempt at an upstream.

The client's `traceparent` is gone on with, the attempt's own is passed to the upstream. Spans hold what the log's line holds: names,
figures, how it ended; no text, no key. Without an endpoint nothing is imported and nothing costs; the SDK comes with the extra `otel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway import __version__
from gateway.metrics.record import Record
from gateway.settings import Telemetry as TelemetrySettings
from gateway.wire.headers import Fields, first

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_NOBODYS_FAULT: Final = frozenset({"ok", "whole", "client_gone"})
_FLUSH_MS: Final = 5_000  # at the end, for a collector that is slow


class TelemetryError(Exception):
    """The extra is not installed; the message says how to get it."""


class Telemetry:
    """Makes the span of each request; `provider` is None where telemetry is off."""

    def __init__(self, settings: TelemetrySettings) -> None:
        self.provider: TracerProvider | None = None
        if settings.endpoint is None:
            return
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            raise TelemetryError("telemetry.endpoint needs the OpenTelemetry SDK: pip install 'decluster[otel]'") from None
        resource = Resource.create({"service.name": settings.service, "service.version": __version__})
        self.provider = TracerProvider(resource=resource, sampler=ParentBased(TraceIdRatioBased(settings.sample)))
        exporter = OTLPSpanExporter(endpoint=settings.endpoint.rstrip("/") + "/v1/traces")
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self.provider.get_tracer("decluster", __version__)
        self._trace: Any = trace
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, fields: Fields, operation: str) -> RequestSpan | None:
        """A request has come."""
        if self.provider is None:
            return None
        carried = {
            name.decode(): value.decode("latin-1") for name in (b"traceparent", b"tracestate") if (value := first(fields, name)) is not None
        }
        context = self._propagator.extract(carried)
        span = self._tracer.start_span(operation, context, kind=self._trace.SpanKind.SERVER)
        return RequestSpan(span, self._tracer, self._trace, self._propagator)

    def close(self) -> None:
        """Blocks until what is held is sent, a few seconds at most."""
        if self.provider is not None:
            self.provider.force_flush(_FLUSH_MS)
            self.provider.shutdown()


class RequestSpan:
    """Of what is answered to one client; or of the answer that is made for those who may come back, which outlives a client."""

    def __init__(self, span: Any, tracer: Any, trace: Any, propagator: Any) -> None:
        self._span = span
        self._tracer = tracer
        self._trace = trace
        self._propagator = propagator
        self._attempt: Any = None

    def recording(self) -> RequestSpan:
        """Of the answer that this request has begun and that others may follow: its child, which may end later."""
        made = self._tracer.start_span("record", self._trace.set_span_in_context(self._span))
        return RequestSpan(made, self._tracer, self._trace, self._propagator)

    def attempt(self, upstream: str) -> Fields:
        """An attempt at an upstream begins: the fields that tell it whose child it is."""
        self._attempt = self._tracer.start_span(
            f"attempt {upstream}",
            self._trace.set_span_in_context(self._span),
            kind=self._trace.SpanKind.CLIENT,
            attributes={"decluster.upstream": upstream},
        )
        told: dict[str, str] = {}
        self._propagator.inject(told, self._trace.set_span_in_context(self._attempt))
        return [(name.encode(), value.encode("latin-1")) for name, value in told.items()]

    def attempted(self, outcome: str) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.set_attribute("decluster.outcome", outcome)
            if outcome not in _NOBODYS_FAULT:
                attempt.set_attribute("error.type", outcome.removeprefix("status_"))
                attempt.set_status(self._trace.StatusCode.ERROR, outcome)
            attempt.end()

    def end(self, record: Record) -> None:
        self.attempted(record.reason)
        span = self._span
        span.update_name(f"{record.operation} {record.model}" if record.model else record.operation)
        span.set_attributes({name: value for name, value in _attributes(record).items() if value is not None})
        if record.reason not in _NOBODYS_FAULT:
            span.set_attribute("error.type", record.reason)
            if not 400 <= record.status < 500:  # which is the client's error and not the server's, by the conventions for HTTP
                span.set_status(self._trace.StatusCode.ERROR, record.reason)
        span.end()


def _attributes(record: Record) -> dict[str, str | int | float | bool | None]:
    """By OpenTelemetry's semantic conventions for generative AI where they name it, else ours."""
    return {
        "gen_ai.operation.name": record.operation,
        "gen_ai.provider.name": record.provider,
        "gen_ai.request.model": record.model,
        "gen_ai.usage.input_tokens": record.input_tokens,
        "gen_ai.usage.output_tokens": record.output_tokens,
        "http.response.status_code": record.status or None,
        "url.path": record.path,
        "decluster.request_id": record.request_id,
        "decluster.upstream": record.upstream,
        "decluster.end": record.reason,
        "decluster.stream": record.stream,
        "decluster.resume": record.resume or None,
        "decluster.first_token_s": record.first_token_s,
        "decluster.overhead_s": record.overhead_s,
        "decluster.heartbeats": record.heartbeats_before + record.heartbeats_during,
        "decluster.clusters.in": sum(record.arrived.clusters) if record.arrived is not None else None,
        "decluster.clusters.out": sum(record.delivered.clusters) if record.delivered is not None else None,
    }
