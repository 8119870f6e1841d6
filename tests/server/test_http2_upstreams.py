"""The gateway over an upstream's HTTP/2: one stream's trouble is nobody else's."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.chunks import DONE, ROLE, STOP, chunk
from support.client import Answer, Client, chat_body, stream
from support.gateway import serving, settings_for
from support.http2_plays import PlayedHttp2
from support.plays import Play, Write, events, sse

pytestmark = pytest.mark.anyio
FIELDS = [("content-type", "application/json"), ("connection", "keep-alive"), ("te", "gzip")]
GATED = Play((Write(sse([ROLE, chunk("one")])), Write(sse([chunk(" two"), STOP, DONE]), gated=True)))
HTTP2 = {"http2": "true"}


def content(answer: Answer) -> str:
    datas = [event.data for event in answer.events if event.data != DONE]
    return "".join(json.loads(data)["choices"][0]["delta"].get("content", "") for data in datas if "choices" in json.loads(data))


async def test_a_stream_that_is_reset_ends_honestly_and_the_others_go_on() -> None:
    reset = events(ROLE, chunk("cut"), end="h2_rst:INTERNAL_ERROR")  # type: ignore[arg-type]
    async with PlayedHttp2(GATED, reset, events(ROLE, chunk("new"), STOP, DONE)) as upstream:
        async with serving(settings_for(upstream.url, upstream=HTTP2)) as gateway, await Client.to(gateway.port) as goes_on:
            goes_on.ask(body=chat_body(), headers=FIELDS)
            await goes_on.until(lambda answer: answer.frames)
            cut = await stream(gateway.port)
            assert content(cut) == "cut"
            assert json.loads(cut.events[-1].data)["error"]["code"] == "upstream_reset"
            assert content(await stream(gateway.port)) == "new"
            upstream.go()
            assert content(await goes_on.ended()) == "one two"
            assert upstream.connections == 1
    names = [name for name, _ in upstream.attempts[0].fields]
    assert not {b"connection", b"te", b"host", b"transfer-encoding"} & set(names)


async def test_a_client_that_leaves_resets_its_stream_alone_a_hundred_times_over() -> None:
    async with PlayedHttp2(*[GATED] * 130) as upstream, serving(settings_for(upstream.url, upstream=HTTP2)) as gateway:
        for turn in range(120):
            async with await Client.to(gateway.port) as client:
                client.ask(body=chat_body(), headers=FIELDS)
                if turn % 2:
                    await client.until(lambda answer: answer.frames)
                await upstream.asked(turn + 1)
                client.leave(abruptly=turn % 3 == 0)
                await upstream.left(upstream.attempts[turn])
        assert {call.reset for call in upstream.calls} == {8}
        upstream.go(1)
        assert content(await stream(gateway.port)) == "one two"
        assert upstream.connections == 1


async def test_clients_that_do_not_read_stall_no_stream_beside_them() -> None:
    text = "0123456789abcdef " * 960
    long = Play((Write(sse([ROLE])), *[Write(sse([chunk(text)] * 10)) for _ in range(60)], Write(sse([STOP, DONE]))))  # 10 MB
    settings = {"upstream": HTTP2, "limits": {"stream_bytes": 256 * 1024}, "pacing": {"mode": "raw"}}
    async with PlayedHttp2(*[long] * 8, events(ROLE, chunk("quick"), STOP, DONE)) as upstream:
        async with serving(settings_for(upstream.url, **settings)) as gateway:
            slow = [await Client.to(gateway.port) for _ in range(8)]
            for client in slow:
                client.ask(body=chat_body(), headers=FIELDS)
                await client.until(lambda answer: answer.frames)
                client.stop_reading()
            await upstream.until(lambda: all(call.room <= 0 for call in upstream.calls))
            for _ in range(20):
                assert content(await stream(gateway.port)) == "quick"
            assert upstream.connections == 1
            for client in slow:
                client.read_on()
            answers = await asyncio.gather(*(client.ended() for client in slow))
            assert [len(content(answer)) for answer in answers] == [len(text) * 600] * 8
            for client in slow:
                client.leave()
