"""Web pages: those of other origins are shut out before they cost anything, unless the configuration lets them in."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.settings import Listen, Settings
from support import plays
from support.chunks import words
from support.client import Headers, ask, stream
from support.gateway import serving, settings_for
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

PAGE = "https://chat.example.com"
OTHER = "https://elsewhere.example"
PREFLIGHT = [("access-control-request-method", "POST"), ("access-control-request-headers", "authorization, content-type")]
OK = plays.json(b'{"ok":true}')


def settings(upstream: ScriptedUpstream, *origins: str) -> Settings:
    return replace(settings_for(upstream.url), listen=Listen(port=0, cors_origins=origins))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/v1/files/f/content", "/v1/nothing"])
@pytest.mark.parametrize(
    "headers",
    [
        [("origin", PAGE)],
        [("origin", "null")],
        [("origin", PAGE), ("sec-fetch-site", "cross-site")],
        [("origin", "http://gateway.test:9999"), ("sec-fetch-site", "same-site")],
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
    ],
)
async def test_by_default_a_page_of_another_origin_reaches_nothing(headers: Headers, path: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings(upstream)) as gateway:
        for method, body in (("GET", None), ("POST", b"{}")):
            answer = await ask(gateway.port, method, path, body, headers)
            assert (answer.status, answer.json()["error"]["code"]) == (403, "origin_not_allowed")
            assert answer.header("x-request-id")
            assert answer.header("access-control-allow-origin") is None
        assert upstream.attempts == []


async def test_its_preflight_is_refused_too_whatever_the_upstream_would_say() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings(upstream, OTHER)) as gateway:
        answer = await ask(gateway.port, "OPTIONS", headers=[("origin", PAGE), *PREFLIGHT])
        assert answer.status == 403
        assert not [name for name, _ in answer.fields if name.startswith("access-control-")]
        assert upstream.attempts == []


async def test_a_refusal_has_the_shape_of_the_api_and_names_the_remedy() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings(upstream)) as gateway:
        answer = await ask(gateway.port, "POST", "/v1/messages", b"{}", [("origin", PAGE)])
        assert answer.json()["type"] == "error"
        assert PAGE in answer.json()["error"]["message"]
        assert "listen.cors_origins" in answer.json()["error"]["message"]
        long = await ask(gateway.port, headers=[("origin", "https://" + "x" * 5000)])
        assert len(long.body) < 1000


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("origin", "http://gateway.test")],
        [("host", "LLM.local:8080"), ("origin", "http://llm.local:8080")],
        [("origin", "http://localhost:5173"), ("sec-fetch-site", "same-origin")],  # a development server in front has changed the Host
        [("sec-fetch-site", "none")],
    ],
)
async def test_programs_and_pages_of_the_gateways_own_origin_need_no_permission(headers: Headers) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings(upstream)) as gateway:
        answer = await ask(gateway.port, "GET", "/v1/models", headers=headers)
        assert answer.status == 200
        assert answer.header("access-control-allow-origin") is None
        assert len(upstream.attempts) == 1


async def test_an_options_request_that_is_no_preflight_goes_to_the_upstream() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings(upstream, PAGE)) as gateway:
        assert (await ask(gateway.port, "OPTIONS", "/v1/models", headers=[("origin", PAGE)])).status == 200
        assert [attempt.method for attempt in upstream.attempts] == ["OPTIONS"]


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/messages", "/v1/unknown"])
async def test_the_preflight_of_a_page_that_is_let_in_is_answered_here(target: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings(upstream, OTHER, PAGE)) as gateway:
        answer = await ask(gateway.port, "OPTIONS", target, headers=[("origin", PAGE), *PREFLIGHT])
        assert (answer.status, answer.body) == (204, b"")
        assert answer.header("access-control-allow-origin") == PAGE
        assert answer.header("vary") == "origin"
        assert answer.header("access-control-allow-headers") == "authorization, content-type"
        assert "POST" in (answer.header("access-control-allow-methods") or "")
        assert answer.header("access-control-allow-credentials") is None
        assert upstream.attempts == []


async def test_a_page_of_a_public_site_may_be_let_in_to_a_private_address() -> None:
    asked = [("origin", PAGE), *PREFLIGHT, ("access-control-request-private-network", "true")]
    async with ScriptedUpstream(OK) as upstream, serving(settings(upstream, PAGE)) as gateway:
        answer = await ask(gateway.port, "OPTIONS", headers=asked)
        assert answer.header("access-control-allow-private-network") == "true"


async def test_a_stream_for_such_a_page_is_the_stream_with_the_permission_to_read_it() -> None:
    fields = ((b"content-type", b"text/event-stream"), (b"access-control-allow-origin", b"https://upstream.example"))
    play = plays.events(*words("Hello", " there"), fields=fields)
    async with ScriptedUpstream(play) as upstream, serving(settings(upstream, PAGE)) as gateway:
        answer = await stream(gateway.port, [("origin", PAGE), ("sec-fetch-site", "cross-site")])
        assert (answer.status, answer.whole) == (200, True)
        assert answer.header("access-control-allow-origin") == PAGE
        assert answer.header("access-control-expose-headers") == "*"
        assert answer.events[-1].data == "[DONE]"


async def test_every_page_is_let_in_where_the_configuration_says_so() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings(upstream, "*")) as gateway:
        for origin in (PAGE, "null"):
            assert (await ask(gateway.port, "GET", "/v1/models", headers=[("origin", origin)])).header("access-control-allow-origin") == "*"
        preflight = await ask(gateway.port, "OPTIONS", headers=[("origin", OTHER), *PREFLIGHT])
        assert (preflight.status, preflight.header("access-control-allow-origin")) == (204, "*")


async def test_errors_reach_such_a_page_as_well() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings(upstream, PAGE)) as gateway:
        answer = await ask(gateway.port, "POST", "/nothing/here", b"{}", [("origin", PAGE)])
        assert answer.header("access-control-allow-origin") == PAGE
        assert json.loads(answer.body)["error"]


@pytest.mark.parametrize("path", ["/healthz", "/metrics"])
async def test_the_gateways_own_pages_answer_whoever_asks(path: str) -> None:
    """They cost nothing, and without a permission no foreign page can read them."""
    async with ScriptedUpstream(OK) as upstream, serving(settings(upstream, PAGE)) as gateway:
        answer = await ask(gateway.port, "GET", path, headers=[("origin", PAGE), ("sec-fetch-site", "cross-site")])
        assert answer.status == 200
        assert answer.header("access-control-allow-origin") is None
