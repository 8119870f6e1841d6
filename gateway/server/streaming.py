"""The exchange that streams one request's answer, put together from what it asks for; and what it was, for the book."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects import Dialect, Messages, Plain, Responses
from gateway.dialects.choices import ChoicesDialect
from gateway.dialects.heartbeats import client_of, style_for
from gateway.pacing.holds import Holds
from gateway.pacing.pacer import Pacer, Unpaced
from gateway.policy.controls import Controls
from gateway.policy.holding import Bounded, Framed, Paged, Releases
from gateway.policy.timing import Timing
from gateway.relay.exchange import Exchange
from gateway.server.admitting import keep_to_budget
from gateway.server.call import Call
from gateway.server.controlling import controls_for, most_reasoning
from gateway.server.protocol import DIRECT
from gateway.server.usage import settle_stream
from gateway.stream import MendableStream, Stream
from gateway.stream.clockwork import NEVER


def exchange_for(call: Call) -> Exchange:
    """From the call's controls, which were read before anything was asked of the upstream."""
    gateway, settings = call.gateway, call.gateway.settings
    controls = call.controls = call.controls or controls_for(call)
    dialect = dialect_for(call)
    holds = Holds()
    call.record.holds = holds.rows
    raw = pacing_mode(call) == "raw" if controls.raw is None else controls.raw
    call.record.raw = raw or not dialect.closes
    pacer = _pacer(call, controls, call.record.raw, holds)
    arrived, delivered = gateway.tracer.meters(call.record.upstream, call.fields)
    stream = (Stream if call.route is None or call.route.on_cut == "error" else MendableStream)(
        call.began,
        dialect,
        pacer,
        settings.clocks,
        heartbeat_every=settings.heartbeat.every if call.recorder is None else NEVER,  # each follower makes its own
        heartbeat_style=style_for(settings.heartbeat.style, dialect.name, client_of(call.fields)),
        event_bytes=settings.limits.event_bytes,
        arrived=arrived,
        delivered=delivered,
        splits=controls.frame_tokens is not None,
        timing=Timing(call.began) if controls.timing else None,
    )
    if call.recorder is not None:  # which waits for its followers as long as they may take
        settings = replace(settings, clocks=replace(settings.clocks, client_stall=None))
    short_way = None if call.recorder is not None else call.scope.get("extensions", {}).get(DIRECT, {}).get("body")
    exchange = Exchange(gateway.loop, gateway.ticker, stream, call.send, settings, call.request_id, short_way and short_way())
    if call.recorder is not None:
        call.recorder.fail = exchange.give_up
    keep_to_budget(call, exchange)
    gateway.running[exchange] = call.record
    return exchange


def note(call: Call, exchange: Exchange) -> None:
    """What the stream was."""
    call.gateway.running.pop(exchange, None)
    record, stream = call.record, exchange.stream
    record.status = exchange.status
    gone = "client_stalled" if exchange.stalled else "client_gone"
    record.reason = gone if exchange.client_gone else stream.reason
    if call.recorder is not None:
        record.followers_left = call.recorder.recording.left
    record.arrived, record.delivered = stream.arrived, stream.delivered
    call.gateway.tracer.note(record, stream.arrived, stream.delivered, call.began, stream.dialect.name)
    record.deadline_releases = stream.pacer.deadline_releases
    record.shed_tokens = stream.shed_tokens
    record.heartbeats_before = stream.heartbeats_before
    record.heartbeats_during = stream.heartbeats - stream.heartbeats_before
    if stream.arrived.first_at is not None:
        record.upstream_first_s = stream.arrived.first_at - call.began
        record.upstream_s = (stream.arrived.last_at or call.began) - call.began
    if stream.first_sent_at is not None and stream.arrived.first_at is not None:
        record.first_token_s = stream.first_sent_at - call.began
        # What came first may not be what left first.
        withheld = call.controls is not None and most_reasoning(call.controls.wish) is not None
        record.overhead_s = None if withheld else stream.first_sent_at - stream.arrived.first_at + exchange.opening.took_s
    usage = stream.dialect.usage
    if usage is not None:
        record.input_tokens, record.output_tokens = usage.input_tokens, usage.output_tokens
    settle_stream(call, exchange)
    record.remarks = stream.dialect.remarks
    record.usage_missing = usage is None and record.reason == "whole" and stream.dialect.closes


def pacing_mode(call: Call) -> str:
    """The route's, else the settings'."""
    route = call.route
    return call.gateway.settings.pacing.mode if route is None or route.pacing is None else route.pacing


def dialect_for(call: Call) -> Dialect:
    """A new one for an attempt, by the call's controls."""
    made, wish = call.dialect, (call.controls or controls_for(call)).wish
    if made is None:
        return Plain()
    if issubclass(made, ChoicesDialect):
        dialect = made(call.ask.choices, "chatcmpl-" + call.request_id.decode(), wish)
        dialect.hides_usage = call.hides_usage
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
