"""The client goes: the upstream is let go of at once, at whatever moment it is, and nothing is left behind."""

from __future__ import annotations

import asyncio

import pytest

from support import plays
from support.chunks import ROLE, chunk, collect, words
from support.client import Client, ask, chat_body, head
from support.gateway import Running, serving, settings_for
from support.plays import Play, Write, sse
from support.upstream import SAFETY_S, ScriptedUpstream

pytestmark = pytest.mark.anyio

FIELDS = [("content-type", "application/json")]
HOLDING = Play(header_delay_s=None)
THINKING = Play((Write(sse([ROLE])),), end="hang")
TALKING = Play((Write(sse([ROLE, chunk("a")])),), end="hang")
BURSTING = Play((Write(sse([ROLE, *[chunk("word ")] * 2000])),), end="hang")
HALF_JSON = Play((Write(b'{"a":'),), fields=plays.JSON, end="hang")
# The contract is 100 ms. On a machine that others use at the same time a test only tells "at once" from "when the upstream ends".
GENEROUS_S = 5.0
HOW = pytest.mark.parametrize("abruptly", [False, True], ids=["closing", "resetting"])


async def gone(upstream: ScriptedUpstream, gateway: Running, client: Client, abruptly: bool) -> None:
    """The client leaves now; the upstream must see it, and the gateway forget the request."""
    loop = asyncio.get_running_loop()
    attempt = await upstream.asked()
    left_at = loop.time()
    client.leave(abruptly=abruptly)
    assert await upstream.left(attempt) - left_at < GENEROUS_S
    await gateway.idle()
    assert gateway.metric("decluster_streams_active") == 0
    assert not gateway.gateway.exchanges


@HOW
@pytest.mark.parametrize(
    "play", [HOLDING, THINKING, TALKING, BURSTING], ids=["before the head", "before content", "in midstream", "with much held back"]
)
async def test_a_stream_that_nobody_reads_is_cancelled(play: Play, abruptly: bool) -> None:
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        client.ask(body=chat_body(), headers=FIELDS)
        await upstream.asked()
        if play in (TALKING, BURSTING):
            await client.until(lambda answer: answer.frames)
        await gone(upstream, gateway, client, abruptly)
        assert gateway.metric("decluster_stream_end_total", reason="client_gone") == 1


@HOW
@pytest.mark.parametrize("play", [HOLDING, HALF_JSON], ids=["before the head", "in the body"])
async def test_a_plain_request_that_nobody_waits_for_is_cancelled(play: Play, abruptly: bool) -> None:
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        client.ask(body=chat_body(stream=False), headers=FIELDS)
        await upstream.asked()
        if play is HALF_JSON:
            await client.until(lambda answer: answer.frames)
        await gone(upstream, gateway, client, abruptly)
        assert gateway.metric("decluster_upstream_attempts_total", outcome="client_gone") == 1


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_closes_its_sending_side_has_gone(streamed: bool) -> None:
    """It looks like one that has closed both, until something is written to it; the upstream would generate until then."""
    play = TALKING if streamed else HALF_JSON
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        client.ask(body=chat_body(stream=streamed), headers=FIELDS)
        await client.until(lambda answer: answer.frames)
        client.half_close()
        await upstream.left(upstream.attempts[0])
        assert not (await client.ended()).whole
        await gateway.idle()
        assert gateway.metric("decluster_upstream_attempts_total", outcome="client_gone") == 1


@HOW
async def test_a_get_that_nobody_waits_for_is_cancelled(abruptly: bool) -> None:
    async with (
        ScriptedUpstream(HOLDING) as upstream,
        serving(settings_for(upstream.url)) as gateway,
        await Client.to(gateway.port) as client,
    ):
        client.ask("GET", "/v1/files/f/content")
        await gone(upstream, gateway, client, abruptly)


@HOW
async def test_an_upload_that_is_given_up_is_given_up_towards_the_upstream(abruptly: bool) -> None:
    async with (
        ScriptedUpstream(HOLDING) as upstream,
        serving(settings_for(upstream.url)) as gateway,
        await Client.to(gateway.port) as client,
    ):
        client.expect()
        client.write(head("POST", "/v1/files", [("content-length", "1000000")]) + bytes(1000))
        attempt = await upstream.asked()
        await upstream.until(lambda: attempt.body)
        await gone(upstream, gateway, client, abruptly)
        assert not attempt.whole


@HOW
async def test_an_unknown_event_stream_that_nobody_reads_is_cancelled(abruptly: bool) -> None:
    play = Play((Write(b"data: 1\n\n"),), end="hang")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        client.ask("POST", "/v1/audio/speech", b"{}", FIELDS)
        await client.until(lambda answer: answer.frames)
        await gone(upstream, gateway, client, abruptly)


async def test_a_client_that_goes_while_it_sends_its_request_costs_the_upstream_nothing() -> None:
    async with (
        ScriptedUpstream(HOLDING) as upstream,
        serving(settings_for(upstream.url)) as gateway,
        await Client.to(gateway.port) as client,
    ):
        client.expect()
        client.write(head("POST", "/v1/chat/completions", FIELDS, 5000) + b"{")
        async with asyncio.timeout(SAFETY_S):
            while not gateway.server.server_state.tasks:
                await asyncio.sleep(0)
        client.leave()
        await gateway.idle()
        assert upstream.attempts == []
        assert gateway.metric("gen_ai_server_request_duration_seconds_count", error_type="client_gone") == 1


async def test_connections_that_were_left_do_not_block_those_that_come() -> None:
    async with (
        ScriptedUpstream(*[TALKING] * 30, plays.events(*words("still here"))) as upstream,
        serving(settings_for(upstream.url)) as gateway,
    ):
        for number in range(30):
            async with await Client.to(gateway.port) as client:
                client.ask(body=chat_body(), headers=FIELDS)
                await client.until(lambda answer: answer.frames)
                client.leave(abruptly=number % 2 == 0)
                await upstream.left(await upstream.asked(number + 1))
        assert upstream.open_connections == 0
        answer = await ask(gateway.port, body=chat_body(), headers=FIELDS)
        assert collect(event.data for event in answer.events).first.content == "still here"
        await gateway.idle()
        assert gateway.metric("decluster_stream_end_total", reason="client_gone") == 30


async def test_a_client_that_leaves_after_the_end_has_not_gone() -> None:
    async with ScriptedUpstream(plays.events(*words("a"))) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert (await ask(gateway.port, body=chat_body(), headers=FIELDS)).whole
        await gateway.idle()
        assert gateway.metric("decluster_stream_end_total", reason="whole") == 1
        assert gateway.metric("decluster_stream_end_total", reason="client_gone") == 0
