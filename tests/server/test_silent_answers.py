"""An answer that is no stream and whose upstream falls silent: the client is told, by a status or by a cut, and the upstream is let go of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support import plays
from support.chunks import ROLE, chunk
from support.client import Client, ask, chat_body, head
from support.gateway import Running, serving, settings_for
from support.http2_plays import PlayedHttp2
from support.plays import Play, Write, sse
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

FIELDS = [("content-type", "application/json")]
SILENCE = {"clocks": {"silence": 0.1}}
FIRST = {"clocks": {"first_content": 0.1}}
TOTAL = {"clocks": {"total": 0.1}}
BEGUN = Play((Write(b'{"id":'),), fields=plays.JSON, end="hang")
HEAD_ALONE = Play(fields=plays.JSON, end="hang")
HOLDING = Play(header_delay_s=None)
WHOLE = plays.json(b'{"id":"x"}')
PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]


async def let_go(upstream: ScriptedUpstream, gateway: Running, outcome: str) -> None:
    """The upstream was left, for that reason, and nothing of the request is left here."""
    await upstream.left(upstream.attempts[-1])
    await gateway.idle()
    assert gateway.metric("decluster_upstream_attempts_total", outcome=outcome) == 1
    assert gateway.metric("decluster_upstream_attempts_total", outcome="ok") == 0


@pytest.mark.parametrize("framing", ["chunked", "length"])
async def test_an_answer_whose_upstream_falls_silent_in_its_body_is_cut(framing: Any) -> None:
    fields = (*plays.JSON, (b"content-length", b"1000")) if framing == "length" else plays.JSON
    play = Play(BEGUN.writes, fields=fields, end="hang", framing=framing)
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, **SILENCE)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False), headers=FIELDS)
        assert (answer.status, answer.body, answer.whole) == (200, b'{"id":', False)
        await let_go(upstream, gateway, "upstream_silent")
        assert gateway.metric("gen_ai_server_request_duration_seconds_count", error_type="upstream_silent") == 1


@pytest.mark.parametrize("path", PATHS)
async def test_before_its_body_has_begun_the_silence_is_a_status_in_the_clients_dialect(path: str) -> None:
    async with ScriptedUpstream(HEAD_ALONE) as upstream, serving(settings_for(upstream.url, **FIRST)) as gateway:
        answer = await ask(gateway.port, "POST", path, chat_body(stream=False), FIELDS)
        assert (answer.status, answer.whole) == (504, True)
        error = answer.json()["error"]
        assert error["type"] == "timeout_error"
        assert "clocks.first_content" in error["message"]
        assert answer.json().get("type") == ("error" if path == "/v1/messages" else None)
        await let_go(upstream, gateway, "upstream_first_content_timeout")


@pytest.mark.parametrize("first", [HEAD_ALONE, Play(fields=plays.JSON, end="reset")], ids=["silent", "reset"])
async def test_before_its_body_has_begun_another_attempt_takes_its_place(first: Play) -> None:
    settings = {**FIRST, "retry": {"attempts": 2, "base": 0.001}}
    async with ScriptedUpstream(first, WHOLE) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False), headers=FIELDS)
        assert (answer.status, answer.body, answer.whole) == (200, b'{"id":"x"}', True)
        assert len(upstream.attempts) == 2


async def test_once_its_body_has_begun_nothing_is_tried_again() -> None:
    settings = {**SILENCE, "retry": {"attempts": 3, "base": 0.001}}
    async with ScriptedUpstream(BEGUN, WHOLE) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False), headers=FIELDS)
        assert (answer.body, answer.whole) == (b'{"id":', False)
        await let_go(upstream, gateway, "upstream_silent")
        assert len(upstream.attempts) == 1


async def test_over_http2_it_is_the_stream_that_is_reset_and_the_connection_serves_on() -> None:
    settings = {**SILENCE, "upstream": {"http2": "true"}}
    async with PlayedHttp2(BEGUN, WHOLE) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False), headers=FIELDS)
        assert (answer.body, answer.whole) == (b'{"id":', False)
        await upstream.left(upstream.attempts[0])
        assert upstream.calls[0].reset == 8
        assert (await ask(gateway.port, body=chat_body(stream=False), headers=FIELDS)).body == b'{"id":"x"}'
        assert upstream.connections == 1


async def test_what_passes_by_is_cut_too() -> None:
    play = Play((Write(b"RIFF"),), fields=((b"content-type", b"audio/mpeg"),), end="hang")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, **SILENCE)) as gateway:
        for request in (("GET", "/v1/files/f/content", None), ("POST", "/v1/audio/speech", b"{}")):
            answer = await ask(gateway.port, *request)
            assert (answer.status, answer.body, answer.whole) == (200, b"RIFF", False)
            await upstream.left(upstream.attempts[-1])


async def test_the_head_of_what_passes_by_waits_for_nothing() -> None:
    play = Play((Write(b"late", gated=True),), fields=((b"content-type", b"audio/mpeg"),))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        client.ask("GET", "/v1/files/f/content")
        await client.until(lambda answer: answer.status == 200)
        upstream.go()
        assert (await client.ended()).body == b"late"


@pytest.mark.parametrize("status", [400, 503])
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_refusal_whose_words_do_not_come_is_cut(status: int, streamed: bool) -> None:
    play = Play(BEGUN.writes, status, plays.JSON, end="hang")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, **SILENCE)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=streamed), headers=FIELDS)
        assert (answer.status, answer.whole) == (status, False)
        await let_go(upstream, gateway, f"status_{status}")


async def test_a_list_of_models_that_does_not_come_is_an_error() -> None:
    async with ScriptedUpstream(BEGUN) as upstream, serving(settings_for(upstream.url, **SILENCE)) as gateway:
        answer = await ask(gateway.port, "GET", "/v1/models")
        assert (answer.status, answer.json()["error"]["code"], answer.whole) == (504, "upstream_silent", True)
        await let_go(upstream, gateway, "upstream_silent")


async def test_a_stream_that_was_not_asked_for_is_not_kept_alive_by_comments() -> None:
    comments = (Write(b": processing\n\n", 0.02),) * 2000
    play = Play((Write(sse([ROLE, chunk("a")])), *comments))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, **SILENCE)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False), headers=FIELDS)
        assert (answer.status, answer.json()["error"]["code"]) == (504, "upstream_silent")
        await let_go(upstream, gateway, "upstream_silent")


@pytest.mark.parametrize("play", [HOLDING, HEAD_ALONE], ids=["before the head", "before the body"])
async def test_the_clock_of_the_whole_is_an_answers_too_and_not_tried_again(play: Play) -> None:
    settings = {**TOTAL, "retry": {"attempts": 3, "base": 0.001}}
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False), headers=FIELDS)
        assert (answer.status, answer.json()["error"]["code"]) == (504, "upstream_total_timeout")
        await let_go(upstream, gateway, "upstream_total_timeout")
        assert len(upstream.attempts) == 1


async def test_the_clock_of_the_whole_cuts_an_answer_that_has_begun() -> None:
    async with ScriptedUpstream(BEGUN) as upstream, serving(settings_for(upstream.url, **TOTAL)) as gateway:
        answer = await ask(gateway.port, "GET", "/v1/files/f/content")
        assert answer.whole is False
        assert answer.status in (200, 504)  # a machine that stands still for a moment has not passed the head on
        await let_go(upstream, gateway, "upstream_total_timeout")


async def test_an_upload_that_takes_long_is_not_an_upstream_that_is_silent() -> None:
    async with (
        ScriptedUpstream(WHOLE) as upstream,
        serving(settings_for(upstream.url, clocks={"silence": 0.1, "first_content": 0.1})) as gateway,
        await Client.to(gateway.port) as client,
    ):
        client.expect()
        client.write(head("POST", "/v1/files", [("content-length", "10")]) + b"hello")
        await upstream.asked()
        await asyncio.sleep(0.3)  # three times as long as the upstream may be silent
        client.write(b"world")
        assert (await client.ended()).status == 200


async def test_a_client_that_does_not_read_is_no_upstream_that_is_silent() -> None:
    size = 40 * 2**20
    play = Play(tuple(Write(bytes(2**18)) for _ in range(size // 2**18)), fields=((b"content-type", b"audio/mpeg"),), framing="length")
    async with (
        ScriptedUpstream(play) as upstream,
        serving(settings_for(upstream.url, clocks={"silence": 0.5})) as gateway,
        await Client.to(gateway.port) as client,
    ):
        client.ask("GET", "/v1/files/f/content")
        await client.until(lambda answer: answer.frames)
        client.stop_reading()
        await upstream.until(lambda: upstream.blocked)
        await asyncio.sleep(1.0)  # twice as long as the upstream may be silent
        client.read_on()
        answer = await client.ended()
        assert (len(answer.body), answer.whole) == (size, True)
