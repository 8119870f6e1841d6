"""A stream from socket to socket: when things leave, what a failure looks like, and that the connections are left in order."""

from __future__ import annotations

import asyncio
import json as jsonlib
from dataclasses import replace

import pytest

from support import plays
from support.chunks import DONE, ROLE, STOP, chunk, collect, words
from support.client import Answer, Client, ask, chat_body, stream
from support.gateway import serving, settings_for
from support.plays import JSON, Play, Write, sse
from support.upstream import ScriptedUpstream, nobody

pytestmark = pytest.mark.anyio

FIELDS = [("content-type", "application/json")]


def datas(answer: Answer) -> list[str]:
    return [event.data for event in answer.events]


def code(answer: Answer) -> str:
    """Of an error response, or of the error event that ends a stream."""
    told = answer.json() if answer.status >= 400 else jsonlib.loads(datas(answer)[-1])
    assert {"message", "type", "param", "code"} == set(told["error"])
    return str(told["error"]["code"])


# Timing


async def test_each_event_leaves_when_it_comes() -> None:
    events = [sse([ROLE]), sse([chunk("one")]), sse([chunk(" two")]), sse([STOP]), sse([DONE])]
    async with ScriptedUpstream(plays.gated(*events)) as upstream, serving(settings_for(upstream.url)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=FIELDS)
            await upstream.asked()
            upstream.go(2)
            answer = await client.until(lambda answer: b"one" in answer.body)
            assert b"two" not in answer.body
            upstream.go()
            await client.until(lambda answer: b"two" in answer.body)
            upstream.go(2)
            await client.ended()
            assert datas(answer) == [ROLE, chunk("one"), chunk(" two"), STOP, DONE]


async def test_the_head_waits_for_content_so_that_a_failure_can_have_a_status() -> None:
    error = '{"error":{"message":"m","type":"overloaded_error"}}'
    async with ScriptedUpstream(plays.gated(sse([ROLE]), sse([error]))) as upstream, serving(settings_for(upstream.url)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=FIELDS)
            await upstream.asked()
            upstream.go()
            await upstream.until(lambda: len(upstream.attempts[0].wrote_at) == 1)
            assert client.answer.status == 0
            upstream.go()
            answer = await client.ended()
    assert (answer.status, answer.body.decode()) == (503, error)


async def test_a_burst_comes_out_smooth_and_whole() -> None:
    said = words(*["word "] * 160)
    async with ScriptedUpstream(plays.events(*said)) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await stream(gateway.port)
        assert datas(answer) == said
        assert len(answer.frames) >= 5  # how smooth is the pacing tests' to judge, on a clock that does not stumble


async def test_heartbeats_begin_before_the_upstream_has_answered() -> None:
    play = Play((Write(sse(words("late"))),), header_delay_s=0.35)
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, heartbeat={"every": 0.1})) as gateway:
        answer = await stream(gateway.port)
        assert len(answer.comments) >= 2
        assert answer.body.startswith(b": keepalive\n\n")
        assert datas(answer) == words("late")
        assert answer.header("x-request-id")
        assert answer.header("content-type") == "text/event-stream; charset=utf-8"
        await gateway.idle()
        assert gateway.metric("decluster_heartbeats_total", phase="before") == len(answer.comments)
        assert gateway.metric("decluster_heartbeats_total", phase="during") == 0


async def test_heartbeats_fill_a_silence_in_midstream() -> None:
    play = Play((Write(sse([ROLE, chunk("a")])), Write(sse([STOP, DONE]), 0.45)))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, heartbeat={"every": 0.1})) as gateway:
        answer = await stream(gateway.port)
        assert len(answer.comments) >= 2
        await gateway.idle()
        assert gateway.metric("decluster_heartbeats_total", phase="during") == len(answer.comments)


async def test_no_heartbeat_is_put_into_an_answer_that_is_no_stream() -> None:
    play = Play((Write(b'{"a":1}'),), fields=JSON, framing="length", header_delay_s=0.3)
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, heartbeat={"every": 0.05})) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False), headers=FIELDS)
    assert answer.body == b'{"a":1}'


# Failures before anything was sent

TROUBLES: dict[str, tuple[Play, int, str]] = {
    "reset before the status line": (Play(before_status=True), 502, "upstream_protocol"),
    "reset after the head": (Play(end="reset"), 502, "upstream_reset"),
    "empty body": (Play(), 502, "upstream_empty"),
    "a role alone": (plays.events(ROLE), 502, "upstream_empty"),
    "[DONE] alone": (plays.events(DONE), 502, "upstream_empty"),
    "[DONE] alone and held open": (plays.events(DONE, end="hang"), 502, "upstream_empty"),
    "HTML": (Play((Write(b"<html>"),), fields=((b"content-type", b"text/html"),)), 502, "upstream_not_a_stream"),
    "JSON that is no completion": (plays.json(b'{"ok":true}'), 502, "upstream_not_a_stream"),
    "bytes that are not gzip": (
        Play((Write(b"<p>x</p>"),), fields=(*plays.SSE, (b"content-encoding", b"gzip"))),
        502,
        "upstream_encoding",
    ),
    "an unknown coding": (Play((Write(b"x"),), fields=(*plays.SSE, (b"content-encoding", b"x-new"))), 502, "upstream_encoding"),
    "broken JSON": (plays.events('{"choices":[{"index":0,'), 502, "upstream_bad_event"),
    "an event without end": (Play((Write(b"data: " + b"x" * 70_000),)), 502, "upstream_event_too_large"),
    "nothing at all": (Play(header_delay_s=None), 504, "upstream_headers_timeout"),
    "a head and nothing else": (Play(end="hang"), 504, "upstream_first_content_timeout"),
    "comments for ever": (Play((Write(b": wait\n\n"),), end="hang"), 504, "upstream_first_content_timeout"),
    "not HTTP": (Play((Write(b"HTTP/9.9 hello\r\n\r\n"),), fields=((b"content-length", b"nonsense"),)), 502, "upstream_protocol"),
}


@pytest.mark.parametrize(("play", "status", "wanted"), TROUBLES.values(), ids=TROUBLES.keys())
async def test_trouble_before_any_content_is_a_status(play: Play, status: int, wanted: str) -> None:
    clocks = {"headers": 0.3, "first_content": 0.4}
    async with (
        ScriptedUpstream(play) as upstream,
        serving(settings_for(upstream.url, clocks=clocks, limits={"event_bytes": 65536})) as gateway,
    ):
        answer = await stream(gateway.port)
        assert (answer.status, code(answer), answer.whole) == (status, wanted, True)
        assert answer.header("content-type") == "application/json"
        assert answer.header("x-request-id")
        assert len(upstream.attempts) == 1
        await gateway.idle()
        assert gateway.metric("decluster_stream_end_total", reason=wanted) == 1


@pytest.mark.parametrize(("play", "status", "wanted"), TROUBLES.values(), ids=TROUBLES.keys())
async def test_the_same_trouble_after_a_heartbeat_is_an_event(play: Play, status: int, wanted: str) -> None:
    clocks = {"headers": 0.5, "first_content": 0.6}
    late = replace(play, header_delay_s=None if play.header_delay_s is None else 0.15)
    settings = {"clocks": clocks, "limits": {"event_bytes": 65536}, "heartbeat": {"every": 0.05}}
    async with ScriptedUpstream(late) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        answer = await stream(gateway.port)
        assert (answer.status, code(answer), answer.whole) == (200, wanted, True)
        assert answer.comments
        assert len(datas(answer)) == 1


@pytest.mark.parametrize("streamed", [True, False])
async def test_an_upstream_that_is_not_there_is_a_502_that_says_where(streamed: bool) -> None:
    async with nobody() as url, serving(settings_for(url)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=streamed), headers=FIELDS)
        assert (answer.status, code(answer)) == (502, "upstream_unreachable")
        assert url.split("/")[2] in answer.json()["error"]["message"]


async def test_no_answer_to_a_plain_request_in_time_is_a_504() -> None:
    async with (
        ScriptedUpstream(Play(header_delay_s=None)) as upstream,
        serving(settings_for(upstream.url, clocks={"headers": 0.2})) as gateway,
    ):
        answer = await ask(gateway.port, "GET", "/v1/models")
        assert (answer.status, code(answer)) == (504, "upstream_headers_timeout")
        await upstream.left(upstream.attempts[0])


async def test_an_error_of_the_upstream_after_a_heartbeat_is_told_in_the_stream() -> None:
    error = b'{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}'
    play = Play((Write(error),), 429, JSON, header_delay_s=0.3)
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, heartbeat={"every": 0.1})) as gateway:
        answer = await stream(gateway.port)
    assert (answer.status, datas(answer)) == (200, [error.decode()])


async def test_an_error_that_is_no_json_after_a_heartbeat_is_told_in_our_words() -> None:
    play = Play((Write(b"<html>gone"),), 502, ((b"content-type", b"text/html"),), header_delay_s=0.3)
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, heartbeat={"every": 0.1})) as gateway:
        answer = await stream(gateway.port)
    assert (answer.status, code(answer)) == (200, "upstream_error")
    assert b"html" not in answer.body


# Failures after content


@pytest.mark.parametrize(
    ("tail", "end", "clocks", "wanted"),
    [
        (b"", "close", {}, "upstream_incomplete"),
        (b"", "reset", {}, "upstream_reset"),
        (b'data: {"choices":[{"index":0,"del', "reset", {}, "upstream_reset"),
        (b"", "hang", {"silence": 0.3}, "upstream_silent"),
        (b"", "hang", {"total": 0.4}, "upstream_total_timeout"),
        (b"<html>bad gateway</html>", "close", {}, "upstream_incomplete"),
        (b'data: {"error":{"message":"m","type":"x","param":null,"code":"upstream_error"}}\n\n', "hang", {}, "upstream_error"),
        (b"data: {broken}\n\n", "hang", {}, "upstream_bad_event"),
    ],
)
@pytest.mark.parametrize("mode", ["smooth", "raw"])
async def test_trouble_after_content_is_an_error_event_and_no_done(
    tail: bytes, end: str, clocks: dict[str, float], wanted: str, mode: str
) -> None:
    play = Play((Write(sse([ROLE, chunk("some "), chunk("text")]) + tail),), end=end)  # type: ignore[arg-type]
    parts = {"clocks": clocks, "pacing": {"mode": mode}, "heartbeat": {"every": 3600}}  # no other clock rings before the one that is set
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, **parts)) as gateway:
        answer = await stream(gateway.port)
        got = collect(datas(answer))
        assert (answer.status, got.first.content, got.first.finish, got.done, len(got.errors)) == (200, "some text", None, 0, 1)
        assert code(answer) == wanted
        assert answer.whole
        await upstream.until(lambda: upstream.attempts[0].left_at is not None or upstream.attempts[0].finished)
        await gateway.idle()
        assert gateway.metric("decluster_stream_end_total", reason=wanted) == 1


# Ends


@pytest.mark.parametrize("datas_of", [words("a"), words("a")[:-1]])
@pytest.mark.parametrize("end", ["close", "hang", "reset"])
async def test_a_whole_answer_is_whole_however_the_connection_ends(datas_of: list[str], end: str) -> None:
    async with ScriptedUpstream(plays.events(*datas_of, end=end)) as upstream:  # type: ignore[arg-type]
        async with serving(settings_for(upstream.url, clocks={"closing": 0.2})) as gateway:
            answer = await stream(gateway.port)
            assert datas(answer) == words("a")
            assert answer.whole
            await upstream.until(lambda: upstream.attempts[0].left_at is not None or upstream.attempts[0].finished)


async def test_a_connection_is_used_again_after_a_whole_stream() -> None:
    async with ScriptedUpstream(plays.events(*words("a"))) as upstream, serving(settings_for(upstream.url)) as gateway:
        for _ in range(4):
            assert datas(await stream(gateway.port)) == words("a")
        assert upstream.connections == 1


async def test_a_connection_is_not_used_again_after_a_broken_stream() -> None:
    broken, whole = plays.events(ROLE, chunk("a"), "{broken}", end="hang"), plays.events(*words("b"))
    async with ScriptedUpstream(broken, whole) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert code(await stream(gateway.port)) == "upstream_bad_event"
        await upstream.left(upstream.attempts[0])
        assert datas(await stream(gateway.port)) == words("b")
        assert upstream.connections == 2


async def test_many_streams_at_once_do_not_mix() -> None:
    async def one(name: str) -> str:
        answer = await ask(gateway.port, body=chat_body(), headers=[*FIELDS, ("authorization", f"Bearer {name}")])
        return collect(datas(answer)).first.content

    play = Play(tuple(Write(sse([data]), 0.005) for data in words(*(f"{number} " for number in range(20)))))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        said = await asyncio.gather(*(one(str(number)) for number in range(40)))
        assert set(said) == {"".join(f"{number} " for number in range(20))}
        assert len(upstream.attempts) == 40
        await gateway.idle()
        assert gateway.metric("decluster_streams_active") == 0


async def test_a_converted_completion_is_paced_like_any_stream() -> None:
    body = jsonlib.dumps(
        {"id": "x", "object": "chat.completion", "choices": [{"index": 0, "message": {"content": "word " * 100}, "finish_reason": "stop"}]}
    )
    async with ScriptedUpstream(plays.json(body.encode())) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await stream(gateway.port)
    got = collect(datas(answer))
    assert (got.first.content, got.first.finish, got.done) == ("word " * 100, "stop", 1)
    assert len(answer.frames) > 5
