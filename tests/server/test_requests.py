"""What reaches the upstream of a request, and what is refused before it does."""

from __future__ import annotations

import gzip
import zlib

import pytest
import zstandard

from support import plays
from support.chunks import collect, words
from support.client import Client, ask, chat_body, stream
from support.gateway import serving, settings_for
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

OK = plays.events(*words("hello"))
JSON = [("content-type", "application/json")]


def text(answer: object) -> str:
    return collect(event.data for event in answer.events).first.content  # type: ignore[attr-defined]


# Addresses


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/v1/v1", "/v1/chat/completions"),
        ("/api/v1", "/api/v1/chat/completions"),
        ("/v1beta/openai/", "/v1beta/openai/chat/completions"),
    ],
)
async def test_upstreams_address_works_with_and_without_v1(suffix: str, expected: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url.removesuffix("/v1") + suffix)) as gateway:
        assert text(await stream(gateway.port)) == "hello"
        assert upstream.attempts[0].target == expected


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/chat/completions", "/v1/v1/chat/completions", "//v1/chat/completions", "/v1//chat/completions"]
)
async def test_clients_address_works_with_and_without_v1(path: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", path, chat_body(), JSON)
        assert text(answer) == "hello"
        assert upstream.attempts[0].target == "/v1/chat/completions"


@pytest.mark.parametrize("path", ["/nothing", "/v2/chat/completions", "/favicon.ico", "/v1x", "/admin/chat"])
async def test_other_paths_are_a_404_that_names_the_right_ones(path: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", path, chat_body(), JSON)
        assert (answer.status, answer.json()["error"]["code"]) == (404, "not_found")
        assert "/v1/chat/completions" in answer.json()["error"]["message"]
        assert answer.header("x-request-id")
        assert upstream.attempts == []


# WebSockets


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/realtime?model=x"])
async def test_a_websocket_is_refused_at_once_with_426(path: str) -> None:
    fields = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "AQIDBAUGBwgJCgsMDQ4PEA=="),
    ]
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "GET", path, headers=fields)
        assert (answer.status, answer.json()["error"]["code"]) == (426, "websocket_unsupported")
        assert answer.header("upgrade")
        assert upstream.attempts == []


async def test_another_upgrade_is_not_taken_and_the_request_is_served() -> None:
    """RFC 9110, 7.8; Java's client offers h2c with each request."""
    fields = [*JSON, ("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "AAMAAABkAAQCAAAAAAIAAAAA")]
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert text(await ask(gateway.port, body=chat_body(), headers=fields)) == "hello"
        assert not {b"upgrade", b"http2-settings", b"connection"} & set(upstream.attempts[0].names)


# Headers


async def test_end_to_end_fields_arrive_as_they_were_and_hop_by_hop_fields_do_not() -> None:
    kept = [
        ("user-agent", "OpenAI/Python 3.57.0"), ("x-stainless-retry-count", "0"), ("x-stainless-read-timeout", "600"), ("idempotency-key", "k-1"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("openai-organization", "org-1"), ("openai-beta", "a=v2"),
        ("anthropic-beta", "a-1, b-2"), ("anthropic-beta", "c-3"), ("cookie", "a=b"), ("x-request-id", "mine"), ("accept", "text/event-stream"),
        ("authorization", "Bearer client-key"), ("content-type", "application/json"), ("session-id", "s-1"), ("x-odd", "caf\xe9"), ("x-empty", ""),
    ]  # fmt: skip
    dropped = [
        ("connection", "keep-alive, X-Hop"),
        ("x-hop", "1"),
        ("te", "trailers"),
        ("keep-alive", "timeout=5"),
        ("proxy-authorization", "Basic x"),
    ]
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert text(await ask(gateway.port, body=chat_body(), headers=[*kept, *dropped, ("accept-encoding", "gzip, br")])) == "hello"
        [attempt] = upstream.attempts
    got = [(name.decode(), value.decode("latin-1")) for name, value in attempt.fields]
    assert [pair for pair in got if pair[0] not in ("host", "accept-encoding", "content-length")] == kept
    assert attempt.named(b"host") == [upstream.url.removeprefix("http://").removesuffix("/v1").encode()]
    assert attempt.named(b"accept-encoding") == [b"identity"]  # of a stream; a compressed one is decoded all the same
    assert attempt.named(b"content-length") == [str(len(chat_body())).encode()]


async def test_fields_of_the_answer_pass_but_for_those_of_the_hop() -> None:
    fields = (
        *plays.SSE, (b"x-ratelimit-remaining-tokens", b"99"), (b"OpenAI-Processing-MS", b"12"), (b"x-request-id", b"req_upstream"), (b"Set-Cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"), (b"connection", b"keep-alive, x-internal"), (b"x-internal", b"1"), (b"keep-alive", b"timeout=5"), (b"server", b"up/1.0"),
        (b"date", b"Sun, 29 Nov 2026 10:00:00 GMT"), (b"cache-control", b"no-store"), (b"etag", b'"1"'), (b"proxy-authenticate", b"Basic"),
    )  # fmt: skip
    async with ScriptedUpstream(plays.events(*words("hello"), fields=fields)) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await stream(gateway.port)
    assert answer.header("x-request-id") == "req_upstream"
    assert [value for name, value in answer.fields if name == "set-cookie"] == ["a=1", "b=2"]
    assert [answer.header(name) for name in ("x-ratelimit-remaining-tokens", "openai-processing-ms", "server")] == ["99", "12", "up/1.0"]
    assert answer.header("date") == "Sun, 29 Nov 2026 10:00:00 GMT"
    assert answer.header("cache-control") == "no-cache, no-transform"
    assert not [name for name in ("x-internal", "keep-alive", "proxy-authenticate", "etag") if answer.header(name)]


async def test_a_request_gets_an_id_of_its_own_where_the_upstream_gives_none() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        ids = {(await stream(gateway.port)).header("x-request-id") for _ in range(3)}
    assert len(ids) == 3
    assert all(found and found.startswith("req_") for found in ids)


async def test_an_upstreams_own_key_replaces_the_clients() -> None:
    upstream_settings = {"api_key": "sk-upstream", "headers": (("x-team", "t1"), ("User-Agent", "ours"))}
    fields = [
        *JSON,
        ("authorization", "Bearer client-key"),
        ("x-api-key", "client-key"),
        ("api-key", "client-key"),
        ("user-agent", "theirs"),
    ]
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url, upstream=upstream_settings)) as gateway:
        assert text(await ask(gateway.port, body=chat_body(), headers=fields)) == "hello"
        [attempt] = upstream.attempts
    assert attempt.named(b"authorization") == [b"Bearer sk-upstream"]
    assert (attempt.named(b"x-team"), attempt.named(b"user-agent")) == ([b"t1"], [b"ours"])
    assert not any(b"client-key" in value for _, value in attempt.fields)


async def test_without_a_key_the_clients_passes_through() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        await stream(gateway.port)
        assert upstream.attempts[0].named(b"authorization") == [b"Bearer test-key"]


# Controls


@pytest.mark.parametrize(("forward", "arrives"), [(False, []), (True, [b"raw"])])
async def test_the_gateways_own_headers_are_forwarded_only_where_that_is_set(forward: bool, arrives: list[bytes]) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url, upstream={"forward_extensions": forward})) as gateway:
        await stream(gateway.port, [("x-client-streams", "raw")])
        assert upstream.attempts[0].named(b"x-client-streams") == arrives


async def test_a_control_with_a_value_that_it_does_not_take_is_a_400_that_names_it() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await stream(gateway.port, [("x-client-streams", "sometimes")])
        assert (answer.status, answer.json()["error"]["code"], answer.json()["error"]["param"]) == (
            400,
            "invalid_control",
            "x-client-streams",
        )
        assert upstream.attempts == []


@pytest.mark.parametrize(
    ("mode", "header", "in_one_frame"), [("smooth", None, False), ("smooth", "raw", True), ("raw", None, True), ("raw", "smooth", False)]
)
async def test_pacing_is_chosen_by_the_setting_and_the_header_wins(mode: str, header: str | None, in_one_frame: bool) -> None:
    fields = [("x-client-streams", header)] if header else []
    async with ScriptedUpstream(plays.events(*words(*["word "] * 80))) as upstream:
        async with serving(settings_for(upstream.url, pacing={"mode": mode})) as gateway:
            answer = await stream(gateway.port, fields)
    assert text(answer) == "word " * 80
    assert (len(answer.frames) == 1) == in_one_frame


# Bodies


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstandard.compress),
        ("identity", bytes),
        ("gzip, zstd", lambda b: zstandard.compress(gzip.compress(b))),
    ],
)
async def test_a_compressed_request_is_understood_and_passed_on_as_it_came(coding: str, compress: object) -> None:
    body = compress(chat_body())  # type: ignore[operator]
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, body=body, headers=[*JSON, ("content-encoding", coding)])
        assert text(answer) == "hello"
        assert bytes(upstream.attempts[0].body) == body
        assert upstream.attempts[0].named(b"content-encoding") == [coding.encode()]


async def test_an_unknown_coding_is_a_415() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, body=b"x", headers=[*JSON, ("content-encoding", "x-new")])
        assert (answer.status, answer.json()["error"]["code"]) == (415, "unsupported_encoding")
        assert upstream.attempts == []


async def test_a_request_that_is_not_what_its_coding_says_is_a_400_and_a_bomb_too() -> None:
    bomb = gzip.compress(bytes(4 * 2**20))
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url, limits={"request_bytes": 2**20})) as gateway:
        for body in (b"no gzip at all", bomb):
            answer = await ask(gateway.port, body=body, headers=[*JSON, ("content-encoding", "gzip")])
            assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_request")
        assert upstream.attempts == []


async def test_a_body_above_the_limit_is_a_413_before_it_is_read() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url, limits={"request_bytes": 1024})) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask("POST", headers=[*JSON, ("content-length", "2000000")])
            answer = await client.ended()
        assert (answer.status, answer.json()["error"]["code"]) == (413, "request_too_large")
        assert "1024" in answer.json()["error"]["message"]
        answer = await ask(gateway.port, body=b"800\r\n" + bytes(2048) + b"\r\n", headers=[*JSON, ("transfer-encoding", "chunked")])
        assert answer.status == 413
        assert upstream.attempts == []


async def test_a_request_of_http_1_0_is_answered_to_the_end_of_the_connection() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        client.ask("POST", body=chat_body(), headers=JSON, version="1.0")
        answer = await client.ended()
        assert answer.header("transfer-encoding") is None
        assert text(answer) == "hello"
        assert answer.body.endswith(b"data: [DONE]\n\n")


async def test_several_requests_on_one_connection_one_after_the_other() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        for _ in range(3):
            client.ask(body=chat_body(), headers=JSON)
            assert text(await client.ended()) == "hello"
        assert upstream.connections == 1
