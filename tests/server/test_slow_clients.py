"""A client that reads slowly: memory stays bounded, the upstream waits, and everything arrives all the same."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.settings import MaxLag
from gateway.stream import Phase
from support import plays
from support.chunks import DONE, ROLE, STOP, chunk, words
from support.client import Answer, Client, ask, chat_body
from support.gateway import Running, serving, settings_for
from support.plays import Play, Write, sse
from support.upstream import SAFETY_S, ScriptedUpstream

pytestmark = pytest.mark.anyio

FIELDS = [("content-type", "application/json")]
STREAM_BYTES = 256 * 1024
TEXT = "0123456789abcdef " * 960  # 16 kB
EVENTS = 1500  # 24 MB: more than all socket buffers between the two hold, so that something has to wait
NO_LAG = MaxLag(0.05, 0.05, 0.05)  # so that a smooth stream of 24 MB ends within a test's patience


def long_answer() -> Play:
    body = tuple(Write(sse([chunk(TEXT)] * 10)) for _ in range(EVENTS // 10))
    return Play((Write(sse([ROLE])), *body, Write(sse([STOP, DONE]))))


def content(answer: Answer) -> str:
    datas = [event.data for event in answer.events]
    assert datas[-1] == DONE
    return "".join(json.loads(data)["choices"][0]["delta"].get("content", "") for data in datas[:-1])


def held(gateway: Running) -> int:
    return max((exchange.stream.held_bytes for exchange in gateway.gateway.exchanges), default=0)


@pytest.mark.parametrize("mode", ["raw", "smooth"])
async def test_the_upstream_waits_for_a_client_that_does_not_read_and_then_all_of_it_arrives(mode: str) -> None:
    settings = {"limits": {"stream_bytes": STREAM_BYTES}, "pacing": {"mode": mode, "end": 0.1, "max_lag": NO_LAG}}
    async with ScriptedUpstream(long_answer()) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=FIELDS)
            await client.until(lambda answer: answer.frames)
            client.stop_reading()
            most_held = 0
            async with asyncio.timeout(SAFETY_S):
                while not upstream.blocked:
                    most_held = max(most_held, held(gateway))
                    await asyncio.sleep(0.001)
            for _ in range(50):  # it stays so
                most_held = max(most_held, held(gateway))
                await asyncio.sleep(0.001)
            assert upstream.blocked
            assert not upstream.attempts[0].finished
            assert most_held <= STREAM_BYTES + 2**18  # the bound, and one read of the socket
            client.read_on()
            answer = await client.ended()
        assert answer.whole
        assert content(answer) == TEXT * EVENTS


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])  # uvloop says only later that a connection is full
async def test_a_last_frame_that_fills_the_connection_is_followed_by_the_end_of_the_message() -> None:
    play = plays.events(ROLE, chunk(TEXT * 400), STOP, DONE)  # 6 MB in one event
    settings = {"pacing": {"mode": "raw"}}
    async with (
        ScriptedUpstream(play) as upstream,
        serving(settings_for(upstream.url, **settings)) as gateway,
        await Client.to(gateway.port) as client,
    ):
        client.ask(body=chat_body(), headers=FIELDS)
        client.stop_reading()
        attempt = await upstream.asked()
        await upstream.until(lambda: attempt.finished)
        async with asyncio.timeout(SAFETY_S):
            while any(exchange.stream.phase is not Phase.ENDED for exchange in gateway.gateway.exchanges):
                await asyncio.sleep(0.001)
        client.read_on()
        answer = await client.ended()
    assert answer.whole
    assert content(answer) == TEXT * 400


async def test_an_unread_answer_that_is_no_stream_makes_the_upstream_wait_too() -> None:
    size = 40 * 2**20
    play = Play(tuple(Write(bytes(2**18)) for _ in range(size // 2**18)), fields=((b"content-type", b"audio/mpeg"),), framing="length")
    async with (
        ScriptedUpstream(play) as upstream,
        serving(settings_for(upstream.url)) as gateway,
        await Client.to(gateway.port) as client,
    ):
        client.ask("GET", "/v1/files/f/content")
        await client.until(lambda answer: answer.frames)
        client.stop_reading()
        await upstream.until(lambda: upstream.blocked)
        assert not upstream.attempts[0].finished
        client.read_on()
        answer = await client.ended()
        assert (len(answer.body), answer.whole) == (size, True)


async def test_no_heartbeat_is_queued_behind_a_write_that_waits() -> None:
    """The sockets are full; the client reads on after many heartbeats' time and finds the text, and no heap of heartbeats."""
    settings = {"limits": {"stream_bytes": STREAM_BYTES}, "pacing": {"mode": "raw"}, "heartbeat": {"every": 0.2}}
    play = Play((*long_answer().writes[:-1], Write(sse([STOP, DONE]))))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=FIELDS)
            await client.until(lambda answer: answer.frames)
            client.stop_reading()
            seen_bytes = len(client.answer.body)
            await upstream.until(lambda: upstream.blocked)
            await asyncio.sleep(1.2)
            client.read_on()
            answer = await client.ended()
        later = [comment for comment in answer.comments if comment.end > seen_bytes]
        assert (
            len(later) <= 1
        )  # one, where the machine itself stood still while the sockets were filling; six were due while they were full
        assert answer.whole
        assert content(answer) == TEXT * EVENTS


async def test_a_client_that_takes_nothing_for_too_long_is_given_up() -> None:
    settings = {
        "limits": {"stream_bytes": STREAM_BYTES},
        "pacing": {"mode": "raw"},
        "clocks": {"client_stall": 0.3},
        "heartbeat": {"every": 0.1},
    }
    async with ScriptedUpstream(long_answer()) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=FIELDS)
            await client.until(lambda answer: answer.frames)
            client.stop_reading()
            await upstream.left(await upstream.asked())
            assert not gateway.gateway.exchanges


async def test_other_clients_do_not_notice_one_that_is_slow() -> None:
    settings = {"limits": {"stream_bytes": STREAM_BYTES}, "pacing": {"mode": "raw"}}
    async with (
        ScriptedUpstream(long_answer(), plays.events(*words("quick"))) as upstream,
        serving(settings_for(upstream.url, **settings)) as gateway,
        await Client.to(gateway.port) as slow,
    ):
        slow.ask(body=chat_body(), headers=FIELDS)
        await slow.until(lambda answer: answer.frames)
        slow.stop_reading()
        await upstream.until(lambda: upstream.blocked)
        quick = await ask(gateway.port, body=chat_body(), headers=FIELDS)
        assert [event.data for event in quick.events] == words("quick")
