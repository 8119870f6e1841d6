"""The exchange that streams one request's answer, put together from what it asks for; and what it was, for the book."""

from __future__ import annotations

from gateway.dialects import Dialect, Messages, Plain, Responses
from gateway.dialects.choices import ChoicesDialect
from gateway.dialects.heartbeats import style_for
from gateway.dialects.reforms import Wish
from gateway.pacing.clusters import Meter
from gateway.pacing.pacer import Pacer, Unpaced
from gateway.policy.controls import Controls
from gateway.policy.holding import Bounded, Framed, Paged, Releases
from gateway.policy.timing import Timing
from gateway.relay.exchange import Exchange
from gateway.server.call import Call
from gateway.server.controlling import controls_for, most_reasoning
from gateway.server.gateway import Holds
from gateway.stream import Stream
from gateway.wire import headers


def exchange_for(call: Call) -> Exchange:
    """From the call's controls, which were read before anything was asked of the upstream."""
    gateway, settings = call.gateway, call.gateway.settings
    controls = call.controls = call.controls or controls_for(call)
    dialect = _dialect(call, controls.wish)
    holds = Holds()
    call.record.holds = holds.rows
    raw = settings.pacing.mode == "raw" if controls.raw is None else controls.raw
    pacer = _pacer(call, controls, raw or not dialect.closes, holds)
    agent = (headers.first(call.fields, b"user-agent") or b"").decode("latin-1")
    stream = Stream(
        call.began,
        dialect,
        pacer,
        settings.clocks,
        heartbeat_every=settings.heartbeat.every,
        heartbeat_style=style_for(settings.heartbeat.style, dialect.name, agent),
        event_bytes=settings.limits.event_bytes,
        arrived=Meter(),
        delivered=Meter(),
        splits=controls.frame_tokens is not None,
        timing=Timing(call.began) if controls.timing else None,
    )
    return Exchange(gateway.loop, gateway.ticker, stream, call.send, settings, call.request_id)


def note(call: Call, exchange: Exchange) -> None:
    """What the stream was."""
    record, stream = call.record, exchange.stream
    record.status = exchange.status
    record.reason = "client_gone" if exchange.client_gone else stream.reason
    record.arrived, record.delivered = stream.arrived, stream.delivered
    record.deadline_releases = stream.pacer.deadline_releases
    record.shed_tokens = stream.shed_tokens
    record.heartbeats_before = stream.heartbeats_before
    record.heartbeats_during = stream.heartbeats - stream.heartbeats_before
    if stream.arrived.first_at is not None:
        record.upstream_first_s = stream.arrived.first_at - call.began
        record.upstream_s = (stream.arrived.last_at or call.began) - call.began
    if stream.first_sent_at is not None and stream.arrived.first_at is not None:
        record.first_token_s = stream.first_sent_at - call.began
        withheld = (
            call.controls is not None and most_reasoning(call.controls.wish) is not None
        )  # what came first may not be what left first
        record.overhead_s = None if withheld else stream.first_sent_at - stream.arrived.first_at
    usage = stream.dialect.usage
    if usage is not None:
        record.input_tokens, record.output_tokens = usage.input_tokens, usage.output_tokens
    record.remarks = stream.dialect.remarks
    record.usage_missing = usage is None and record.reason == "whole" and stream.dialect.closes


def _dialect(call: Call, wish: Wish) -> Dialect:
    made = call.dialect
    if made is None:
        return Plain()
    if issubclass(made, ChoicesDialect):
        dialect = made(call.ask.choices, "chatcmpl-" + call.request_id.decode(), wish)
        dialect.model = call.ask.model  # for heartbeats until the upstream has named it
        return dialect
    if issubclass(made, Responses | Messages):
        return made(most_reasoning(wish))
    return made()


def _pacer(call: Call, controls: Controls, raw: bool, holds: Holds) -> Releases:
    pacing = call.gateway.settings.pacing
    pacer: Releases
    if raw:
        pacer = Unpaced(holds)
    else:
        pacer = inner = Pacer(pacing, call.gateway.horizon(call.target, call.ask.model), holds)
        if controls.held_reasoning_tokens is not None:
            pacer = Bounded(inner, controls.held_reasoning_tokens)
        if controls.paging is not None:
            pacer = Paged(pacer, controls.paging, pacing.max_lag.reasoning, holds)
    return pacer if controls.frame_tokens is None else Framed(pacer, controls.frame_tokens)
