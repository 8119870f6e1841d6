"""Spans as a collector gets them: over HTTP, in OTLP, with the attempts as children and the upstream as their continuation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.settings import Retry, Route, RouteTarget, Settings, Telemetry
from support.chunks import chunk, words
from support.client import CHAT, Client, chat_body, stream
from support.gateway import Running, serving, settings_for
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


async def followed(*plays: Play, settings: Settings | None = None, ask: Callable[[Running], Awaitable[None]]) -> list[Any]:
    """The spans of what `ask` does with a gateway whose upstream plays this."""
    async with ScriptedUpstream(TAKEN, TAKEN, TAKEN) as collector, ScriptedUpstream(*plays) as upstream:
        settings = replace(settings or settings_for(upstream.url), telemetry=Telemetry(collector.url.removesuffix("/v1")))
        settings = replace(settings, upstreams=(replace(settings.upstreams[0], base_url=upstream.url), *settings.upstreams[1:]))
        async with serving(settings) as gateway:
            await ask(gateway)
            await gateway.idle()
            await gateway.gateway.desk.close()
            await asyncio.to_thread(gateway.gateway.telemetry.close)
        return spans(collector)


def tree(found: list[Any]) -> list[tuple[str, str, str, str]]:
    """Of each span its name, its parent's, its end or outcome, its error type; `!` where its status is an error."""
    names = {span.span_id: span.name for span in found}
    rows = []
    for span in sorted(found, key=lambda span: span.start_time_unix_nano):
        told = attributes(span)
        end = told.get("decluster.end", told.get("decluster.outcome", "")) + (
            "!" if span.status.code == span.status.STATUS_CODE_ERROR else ""
        )
        rows.append((span.name, names.get(span.parent_span_id, ""), end, told.get("error.type", "")))
    return rows


async def test_a_client_that_leaves_is_nobodys_error() -> None:
    async def ask(gateway: Running) -> None:
        async with await Client.to(gateway.port) as client:
            client.ask("POST", CHAT, chat_body(), [("content-type", "application/json")])
            await client.until(lambda answer: answer.frames)

    found = await followed(Play((Write(sse([chunk("Hello")])),), end="hang"), ask=ask)
    assert tree(found) == [("chat m-test", "", "client_gone", ""), ("attempt scripted", "chat m-test", "client_gone", "")]


async def test_a_stream_that_was_cut_is_an_error_of_the_attempt_and_of_the_request() -> None:
    async def ask(gateway: Running) -> None:
        await stream(gateway.port)

    found = await followed(Play((Write(sse([chunk("Hello")])),), end="reset"), ask=ask)
    assert tree(found) == [
        ("chat m-test", "", "upstream_reset!", "upstream_reset"),
        ("attempt scripted", "chat m-test", "upstream_reset!", "upstream_reset"),
    ]


async def test_an_attempt_at_each_upstream_is_a_child_where_one_stands_in_for_another() -> None:
    async with ScriptedUpstream(GOOD) as other:
        settings = settings_for("http://unused")
        second = replace(settings.upstreams[0], name="other", base_url=other.url)
        route = Route(("m-test",), (RouteTarget("scripted"),), fallbacks=(RouteTarget("other"),))
        settings = replace(settings, upstreams=(*settings.upstreams, second), routes=(route,), retry=Retry(3, base=0.001))

        async def ask(gateway: Running) -> None:
            assert (await stream(gateway.port)).status == 200

        found = await followed(
            replace(REFUSED, status=500), replace(REFUSED, status=500), replace(REFUSED, status=500), settings=settings, ask=ask
        )
    rows = tree(found)
    assert rows[0] == ("chat m-test", "", "whole", "")
    assert rows[1] == ("attempt scripted", "chat m-test", "status_500!", "500")
    assert rows[-1] == ("attempt other", "chat m-test", "ok", "")
    assert attributes(next(span for span in found if span.name == "chat m-test"))["decluster.upstream"] == "other"


async def test_what_is_recorded_outlives_its_first_client_in_a_span_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async def ask(gateway: Running) -> None:
        named = [("content-type", "application/json"), ("idempotency-key", "one")]
        async with await Client.to(gateway.port) as client:
            client.ask("POST", CHAT, chat_body(), [*named, ("authorization", "Bearer test-key")])
            await client.until(lambda answer: b"Hello" in answer.body)
        await gateway.idle()  # the first client's span has ended; the answer is still in the making
        upstreams[0].go()
        assert (await stream(gateway.port, named)).events[-1].data == "[DONE]"

    upstreams: list[ScriptedUpstream] = []
    async with ScriptedUpstream(Play((Write(sse([chunk("Hello")])), Write(sse(words(" there")), gated=True)))) as upstream:
        upstreams.append(upstream)
        async with ScriptedUpstream(TAKEN, TAKEN) as collector:
            settings = replace(settings_for(upstream.url), telemetry=Telemetry(collector.url.removesuffix("/v1")))
            async with serving(settings) as gateway:
                await ask(gateway)
                await gateway.idle()
                await gateway.gateway.desk.close()
                await asyncio.to_thread(gateway.gateway.telemetry.close)
            found = spans(collector)
    first, recording, attempt, second = tree(found)
    assert first == ("chat m-test", "", "client_gone", "")
    assert recording == ("chat m-test", "chat m-test", "whole", "")
    assert attempt == ("attempt scripted", "chat m-test", "ok", "")
    assert second == ("chat m-test", "", "whole", "")
    spanned = {span.span_id: span for span in found}
    attempted = next(span for span in found if span.name == "attempt scripted")
    assert attributes(spanned[attempted.parent_span_id])["decluster.stream"] is True
    assert "ended span" not in caplog.text


async def test_a_websocket_that_is_refused_is_the_clients_error_and_no_servers() -> None:
    async def ask(gateway: Running) -> None:
        async with await Client.to(gateway.port) as client:
            client.write(b"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
            client.expect("GET")
            assert (await client.ended()).status == 426

    found = await followed(ask=ask)
    assert [row[2:] for row in tree(found)] == [("websocket_unsupported", "websocket_unsupported")]
    assert int(attributes(found[0])["http.response.status_code"]) == 426
