"""The gateway's own endpoints."""

from __future__ import annotations

import asyncio

import pytest

from gateway import __version__
from support import plays
from support.chunks import words
from support.client import ask, stream
from support.gateway import serving, settings_for
from support.plays import Play
from support.upstream import ScriptedUpstream, nobody

pytestmark = pytest.mark.anyio

MODELS = plays.json(b'{"object":"list","data":[{"id":"m-found"}]}')


async def test_it_is_alive_whatever_the_upstream_does() -> None:
    async with nobody() as url, serving(settings_for(url)) as gateway:
        answer = await ask(gateway.port, "GET", "/healthz")
    assert (answer.status, answer.json()) == (200, {"status": "alive", "version": __version__})


@pytest.mark.parametrize("status", [200, 401, 404])
async def test_it_is_ready_if_the_upstream_answers_at_all(status: int) -> None:
    async with ScriptedUpstream(plays.json(b"{}", status)) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "GET", "/readyz")
        assert (answer.status, answer.json()) == (200, {"status": "ready"})
        assert upstream.attempts[0].target == "/v1/models"


async def test_it_is_not_ready_while_the_upstream_is_broken_or_away() -> None:
    async with ScriptedUpstream(plays.json(b"{}", 503)) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "GET", "/readyz")
        assert answer.status == 503
        assert "503" in answer.json()["reason"]
    async with nobody() as url, serving(settings_for(url)) as gateway:
        assert (await ask(gateway.port, "GET", "/readyz")).status == 503


async def test_all_that_probe_at_once_share_one_question() -> None:
    play = Play(MODELS.writes, fields=MODELS.fields, framing="length", header_delay_s=0.1)
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        answers = await asyncio.gather(*(ask(gateway.port, "GET", "/readyz") for _ in range(10)))
        assert {answer.status for answer in answers} == {200}
        assert (await ask(gateway.port, "GET", "/readyz")).status == 200
        assert len(upstream.attempts) == 1


async def test_a_probe_uses_the_upstreams_own_key_and_learns_its_models() -> None:
    async with ScriptedUpstream(MODELS, plays.events(*words("a"))) as upstream:
        async with serving(settings_for(upstream.url, upstream={"api_key": "sk-up"})) as gateway:
            await ask(gateway.port, "GET", "/readyz")
            assert upstream.attempts[0].named(b"authorization") == [b"Bearer sk-up"]
            await stream(gateway.port, model="m-found")
            await gateway.idle()
            assert gateway.metric("gen_ai_server_time_to_first_token_seconds_count", gen_ai_request_model="m-found") == 1


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_own_endpoints_are_for_reading(path: str) -> None:
    async with ScriptedUpstream(MODELS) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert (await ask(gateway.port, "HEAD", path)).status == 200
        assert (await ask(gateway.port, "POST", path, b"{}")).status == 405


async def test_own_endpoints_are_not_the_upstreams() -> None:
    async with ScriptedUpstream(MODELS) as upstream, serving(settings_for(upstream.url)) as gateway:
        for path in ("/", "/healthz", "/metrics"):
            assert (await ask(gateway.port, "GET", path)).status == 200
        assert upstream.attempts == []
