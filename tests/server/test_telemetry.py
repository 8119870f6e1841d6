"""Spans as a collector gets them: over HTTP, in OTLP, with the attempts as children and the upstream as their continuation."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.settings import Retry, Telemetry
from support.chunks import chunk, words
from support.client import stream
from support.gateway import serving, settings_for
from support.plays import JSON, Play, Write, sse
from support.upstream import ScriptedUpstream, nobody

pytestmark = pytest.mark.anyio

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def spans(collector: ScriptedUpstream) -> list[Any]:
    found = []
    for attempt in collector.attempts:
        assert attempt.target == "/v1/traces"
        request = ExportTraceServiceRequest.FromString(bytes(attempt.body))
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                found += scope.spans
    return found


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


REFUSED = Play((Write(b'{"error":{"message":"no"}}'),), 503, (*JSON, (b"retry-after", b"0")), framing="length")
GOOD = Play((Write(sse([chunk("Hello"), *words(" there")])),))
TAKEN = Play((Write(b""),), 200, ((b"content-type", b"application/x-protobuf"),), framing="length")


async def test_a_request_is_a_span_and_each_attempt_its_child() -> None:
    async with ScriptedUpstream(TAKEN) as collector, ScriptedUpstream(REFUSED, GOOD) as upstream:
        settings = settings_for(upstream.url)
        settings = replace(settings, telemetry=Telemetry(collector.url.removesuffix("/v1"), "my-gateway"), retry=Retry(3, base=0.001))
        async with serving(settings) as gateway:
            headers = [
                ("traceparent", f"00-{TRACE}-{PARENT}-01"),
                ("authorization", "Bearer sk-secret-key"),
                ("content-type", "application/json"),
            ]
            answer = await stream(gateway.port, headers)
            assert answer.status == 200
            await gateway.idle()
            await asyncio.to_thread(gateway.gateway.telemetry.close)
        found = spans(collector)
    request = next(span for span in found if span.parent_span_id.hex() == PARENT)
    children = [span for span in found if span.parent_span_id == request.span_id]
    assert {span.trace_id.hex() for span in found} == {TRACE}
    assert len(found) == 3
    assert [attributes(child)["decluster.outcome"] for child in children] == ["status_503", "ok"]
    told = attributes(request)
    assert request.name == "chat m-test"
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.request.model"] == "m-test"
    assert told["decluster.end"] == "whole"
    assert int(told["http.response.status_code"]) == 200
    for attempt, child in zip(upstream.attempts, children, strict=True):
        assert attempt.named(b"traceparent") == [f"00-{TRACE}-{child.span_id.hex()}-01".encode()]
    for secret in (b"sk-secret-key", b"Hello", b"hi"):
        assert all(secret not in value for value in map(str.encode, map(str, told.values())))
    assert all(b"sk-secret-key" not in bytes(attempt.body) for attempt in collector.attempts)


async def test_without_an_endpoint_traceparent_passes_as_it_came() -> None:
    async with ScriptedUpstream(GOOD) as upstream, serving(settings_for(upstream.url)) as gateway:
        value = f"00-{TRACE}-{PARENT}-01"
        await stream(gateway.port, [("traceparent", value), ("content-type", "application/json")])
        assert upstream.attempts[0].named(b"traceparent") == [value.encode()]


async def test_a_collector_that_is_not_there_harms_no_stream() -> None:
    async with ScriptedUpstream(GOOD) as upstream, nobody() as url:
        settings = replace(settings_for(upstream.url), telemetry=Telemetry(url))
        async with serving(settings) as gateway:
            assert (await stream(gateway.port, [("content-type", "application/json")])).events[-1].data == "[DONE]"
