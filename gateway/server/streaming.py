"""The exchange that streams one request's answer, put together from what it asks for; and what it was, for the book."""

from __future__ import annotations

from gateway.dialects import Dialect, Plain
from gateway.dialects.choices import ChoicesDialect
from gateway.dialects.heartbeats import style_for
from gateway.errors import Failure
from gateway.pacing.clusters import Meter
from gateway.pacing.pacer import Pacer, Unpaced
from gateway.relay.exchange import Exchange
from gateway.server.asking import Refused
from gateway.server.call import Call
from gateway.server.gateway import Holds
from gateway.stream import Stream
from gateway.wire import headers


def exchange_for(call: Call) -> Exchange:
    """Refused where a control has a value that it does not take."""
    gateway, settings = call.gateway, call.gateway.settings
    dialect = _dialect(call)
    holds = Holds()
    call.record.holds = holds.rows
    raw = _raw(call) or not dialect.closes
    pacer = Unpaced(holds) if raw else Pacer(settings.pacing, gateway.horizon(call.target, call.ask.model), holds)
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
    )
    return Exchange(
        gateway.loop,
        gateway.ticker,
        stream,
        call.send,
        settings.clocks,
        settings.limits,
        request_id=call.request_id,
        drops_oldest=settings.overflow == "drop_oldest",
    )


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
        record.overhead_s = stream.first_sent_at - stream.arrived.first_at
    usage = stream.dialect.usage
    if usage is not None:
        record.input_tokens, record.output_tokens = usage.input_tokens, usage.output_tokens
    record.usage_missing = usage is None and record.reason == "whole" and stream.dialect.closes


def _dialect(call: Call) -> Dialect:
    made = call.dialect
    if made is not None and issubclass(made, ChoicesDialect):
        return made(call.ask.choices, "chatcmpl-" + call.request_id.decode())
    return made() if made is not None else Plain()


def _raw(call: Call) -> bool:
    """Whether pacing is off for this request."""
    asked = headers.first(call.fields, b"x-client-streams")
    if asked is None:
        return call.gateway.settings.pacing.mode == "raw"
    mode = asked.strip().lower()
    if mode not in (b"raw", b"smooth"):
        raise Refused(Failure("invalid_control", "The header x-client-streams takes raw or smooth.", param="x-client-streams"))
    return mode == b"raw"
