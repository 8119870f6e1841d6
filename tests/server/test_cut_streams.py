"""Streams whose upstream dies in the middle, by their route's `on_cut`: what the client gets is one answer, or an honest error."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.settings import Cut, Retry, Route, RouteTarget, Settings
from support.chunks import ROLE, STOP, call, chunk
from support.client import Answer, ask, stream
from support.gateway import serving, settings_for
from support.plays import JSON, Play, Write
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio
FIELDS = [("content-type", "application/json"), ("authorization", "Bearer test-key")]


def events(*datas: str, end: Any = "close", ids: bool = False) -> Play:
    lines = (f"id: {at + 1}\ndata: {data}\n\n" if ids else f"data: {data}\n\n" for at, data in enumerate(datas))
    return Play(tuple(Write(line.encode()) for line in lines), end=end)


def other(data: str) -> str:
    """A chunk of another answer."""
    return data.replace("chatcmpl-t1", "chatcmpl-other")


CUT = events(ROLE, chunk("The quick "), chunk("brown"), end="reset")
REST = events(*map(other, (ROLE, chunk(" fox"), chunk(" jumps"), STOP)), "[DONE]")


def settings(first: str, on_cut: Any, cut: Cut, second: str | None = None, **changes: Any) -> Settings:
    made = settings_for(first, retry=Retry(attempts=2, base=0.001), **changes)
    upstream = replace(made.upstreams[0], cut=cut)
    upstreams = (upstream,) if second is None else (upstream, replace(upstream, name="second", base_url=second))
    fallbacks = () if second is None else (RouteTarget("second", model="light"),)
    return replace(made, upstreams=upstreams, routes=(Route(("*",), (RouteTarget("scripted"),), fallbacks, on_cut),))


def said(answer: Answer) -> tuple[str, str | None, str | None]:
    """Text, finish reason and the code of an error."""
    text, finish, code = "", None, None
    for event in answer.events:
        if event.data == "[DONE]":
            continue
        top = json.loads(event.data)
        if "error" in top:
            code = top["error"]["code"]
        for choice in top.get("choices", ()):
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
    return text, finish, code


def one_answer(answer: Answer) -> None:
    chunks = [json.loads(event.data) for event in answer.events if event.data != "[DONE]"]
    assert len({each["id"] for each in chunks}) == 1
    assert sum("role" in choice["delta"] for each in chunks for choice in each["choices"]) == 1
    assert [event.data for event in answer.events].count("[DONE]") == 1


@pytest.mark.parametrize(
    ("prefill", "sign"),
    [("plain", {}), ("prefix", {"prefix": True}), ("final_message", {})],
)
async def test_it_is_continued_with_its_text_as_the_beginning(prefill: Any, sign: dict[str, Any]) -> None:
    async with ScriptedUpstream(CUT, REST) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill=prefill))) as gateway:
            answer = await stream(gateway.port, max_tokens=100)
            assert said(answer) == ("The quick brown fox jumps", "stop", None)
            one_answer(answer)
            assert any("continued after upstream_reset" in comment.text for comment in answer.comments)
            assert gateway.metric("decluster_continuations_total", mode="continue", result="continued") == 1
            assert gateway.metric("decluster_stream_end_total", reason="whole") == 1
        body = json.loads(upstream.attempts[1].body)
    assert body["messages"][-1] == {"role": "assistant", "content": "The quick brown", **sign}
    assert body["messages"][:-1] == [{"role": "user", "content": "hi"}]
    assert 90 < body["max_tokens"] < 100
    assert body.get("continue_final_message") == (True if prefill == "final_message" else None)


async def test_what_the_second_answer_repeats_is_not_said_twice() -> None:
    again = events(*map(other, (ROLE, chunk("The quick"), chunk(" brown fox"), chunk(" jumps"), STOP)), "[DONE]")
    async with ScriptedUpstream(CUT, again) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill="plain"))) as gateway:
            assert said(await stream(gateway.port)) == ("The quick brown fox jumps", "stop", None)


async def test_a_continuation_is_another_request_than_the_clients_key_names() -> None:
    async with ScriptedUpstream(CUT, REST) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill="plain"))) as gateway:
            headers = [("idempotency-key", "k-1"), ("authorization", "Bearer test-key"), ("content-type", "application/json")]
            assert said(await stream(gateway.port, headers)) == ("The quick brown fox jumps", "stop", None)
        first, second = upstream.attempts
    assert first.named(b"idempotency-key") == [b"k-1"]
    assert second.named(b"idempotency-key") == []


@pytest.mark.parametrize("end", ["reset", "close"])
async def test_a_second_answer_that_dies_while_it_repeats_the_first_has_said_nothing(end: str) -> None:
    again = events(*map(other, (ROLE, chunk("The "), chunk("quick"))), end=end)
    async with ScriptedUpstream(CUT, again, REST) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill="plain"))) as gateway:
            answer = await stream(gateway.port)
            assert said(answer) == ("The quick brown fox jumps", "stop", None)
            one_answer(answer)
            assert json.loads(upstream.attempts[2].body)["messages"][-1]["content"] == "The quick brown"
            assert gateway.metric("decluster_stream_end_total", reason="whole") == 1


async def test_another_upstream_goes_on() -> None:
    async with ScriptedUpstream(CUT) as upstream, ScriptedUpstream(REST) as second:
        async with serving(settings(upstream.url, "fallback", Cut(prefill="plain"), second.url)) as gateway:
            answer = await stream(gateway.port)
            assert said(answer) == ("The quick brown fox jumps", "stop", None)
            one_answer(answer)
            assert gateway.metric("decluster_continuations_total", mode="fallback", result="continued") == 1
            assert gateway.metric("decluster_fallbacks_total") == 1
        body = json.loads(second.attempts[0].body)
    assert (body["model"], body["messages"][-1]["content"], len(upstream.attempts)) == ("light", "The quick brown", 1)


@pytest.mark.parametrize(
    "begun",
    [
        [ROLE, chunk(reasoning_content="thinking")],
        [ROLE, chunk("Let me "), chunk(tool_calls=[call(0, "c1", "f", '{"a"')])],
        [ROLE, chunk("one"), chunk("two", index=1)],
        [ROLE, chunk("<think>so far")],
    ],
    ids=["reasoning", "a tool call", "two choices", "reasoning in tags"],
)
async def test_in_reasoning_a_call_or_several_answers_it_is_an_honest_error(begun: list[str]) -> None:
    async with ScriptedUpstream(events(*begun, end="reset"), REST) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill="plain"))) as gateway:
            assert said(await stream(gateway.port))[1:] == (None, "upstream_reset")
            assert len(upstream.attempts) == 1
            assert gateway.metric("decluster_continuations_total", mode="continue", result="impossible") == 1


async def test_where_nobody_can_go_on_the_first_death_is_told() -> None:
    refused = Play((Write(b'{"error":{"message":"no prefill here"}}'),), 400, JSON)
    async with ScriptedUpstream(CUT, refused) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill="plain"))) as gateway:
            assert said(await stream(gateway.port)) == ("The quick brown", None, "upstream_reset")
            assert len(upstream.attempts) == 2
            assert gateway.metric("decluster_continuations_total", mode="continue", result="failed") == 1


async def test_a_stream_that_dies_again_and_again_goes_on_only_so_often() -> None:
    plays = [events(ROLE, chunk(f"part {at}, "), end="reset") for at in range(6)]
    async with ScriptedUpstream(*plays) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill="plain"))) as gateway:
            assert said(await stream(gateway.port)) == ("part 0, part 1, part 2, ", None, "upstream_reset")
            assert len(upstream.attempts) == 3


async def test_an_error_in_the_middle_that_is_the_requests_own_ends_it() -> None:
    filtered = events(ROLE, chunk("Hello"), '{"error":{"message":"filtered","code":"content_filter"}}')
    async with ScriptedUpstream(filtered, REST) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill="plain"))) as gateway:
            assert said(await stream(gateway.port)) == ("Hello", None, "content_filter")
            assert len(upstream.attempts) == 1


async def test_by_default_a_death_is_told() -> None:
    async with ScriptedUpstream(CUT, REST) as upstream, serving(settings(upstream.url, "error", Cut(prefill="plain"))) as gateway:
        assert said(await stream(gateway.port)) == ("The quick brown", None, "upstream_reset")


async def test_a_gateway_like_this_one_is_asked_for_the_rest_by_the_last_id() -> None:
    cut = events(ROLE, chunk(reasoning_content="hm"), chunk("The quick "), end="reset", ids=True)
    rest = events(chunk("brown"), STOP, "[DONE]")
    async with ScriptedUpstream(cut, rest) as upstream:
        async with serving(settings(upstream.url, "resume", Cut(resume="cursor"))) as gateway:
            answer = await stream(gateway.port)
            assert said(answer) == ("The quick brown", "stop", None)
            assert gateway.metric("decluster_continuations_total", mode="resume", result="continued") == 1
        first, second = upstream.attempts
    assert first.body == second.body
    assert first.named(b"idempotency-key") == second.named(b"idempotency-key") != []
    assert second.named(b"last-event-id") == [b"3"]


async def test_responses_are_asked_for_the_rest_by_number() -> None:
    def numbered(kind: str, number: int, **members: Any) -> str:
        return json.dumps({"type": kind, "sequence_number": number, **members})

    def delta(text: str, number: int) -> str:
        return numbered("response.output_text.delta", number, item_id="m", output_index=0, content_index=0, delta=text)

    response = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "m-test", "output": []}
    cut = events(numbered("response.created", 0, response=response), delta("The quick ", 1), delta("brown", 2), end="reset")
    rest = events(delta("brown", 2), delta(" fox", 3), numbered("response.completed", 4, response={**response, "status": "completed"}))
    body = json.dumps({"model": "m-test", "stream": True, "input": "hi"}).encode()
    async with ScriptedUpstream(cut, rest) as upstream:
        async with serving(settings(upstream.url, "resume", Cut(resume="responses"))) as gateway:
            answer = await ask(gateway.port, "POST", "/v1/responses", body, FIELDS)
        second = upstream.attempts[1]
    objects = [json.loads(event.data) for event in answer.events]
    assert "".join(each.get("delta", "") for each in objects) == "The quick brown fox"
    assert [each["sequence_number"] for each in objects] == list(range(5))
    assert objects[-1]["type"] == "response.completed"
    assert (second.method, second.target) == ("GET", "/v1/responses/resp_1?stream=true&starting_after=2")
    assert second.body == b""


async def test_messages_are_continued_in_their_text_block() -> None:
    def typed(name: str, **members: Any) -> str:
        return json.dumps({"type": name, **members})

    def begin(name: str) -> tuple[str, str]:
        message = {
            "id": name,
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": "m-test",
            "stop_reason": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        }
        block = {"type": "text", "text": ""}
        return typed("message_start", message=message), typed("content_block_start", index=0, content_block=block)

    def say(text: str) -> str:
        return typed("content_block_delta", index=0, delta={"type": "text_delta", "text": text})

    cut = events(*begin("a"), say("The quick brown "), end="reset")
    end = (
        typed("content_block_stop", index=0),
        typed("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
        typed("message_stop"),
    )
    rest = events(*begin("b"), say("fox"), *end)
    body = json.dumps({"model": "m-test", "stream": True, "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}).encode()
    async with ScriptedUpstream(cut, rest) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill="plain"))) as gateway:
            answer = await ask(gateway.port, "POST", "/v1/messages", body, FIELDS)
        asked = json.loads(upstream.attempts[1].body)
    objects = [json.loads(event.data) for event in answer.events]
    assert "".join((each.get("delta") or {}).get("text", "") for each in objects) == "The quick brown fox"
    kinds = [each["type"] for each in objects if each["type"] != "ping"]
    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert asked["messages"][-1] == {"role": "assistant", "content": "The quick brown"}


async def test_an_incomplete_end_is_a_death_too() -> None:
    cut = events(ROLE, chunk("The quick "), chunk("brown"))
    async with ScriptedUpstream(cut, REST) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill="plain"))) as gateway:
            assert said(await stream(gateway.port)) == ("The quick brown fox jumps", "stop", None)


async def test_heartbeats_go_on_until_somebody_goes_on() -> None:
    late = replace(REST, header_delay_s=0.4)
    async with ScriptedUpstream(CUT, late) as upstream:
        async with serving(settings(upstream.url, "continue", Cut(prefill="plain"), heartbeat={"every": 0.1})) as gateway:
            answer = await stream(gateway.port)
            assert said(answer) == ("The quick brown fox jumps", "stop", None)
            assert sum("keepalive" in comment.text for comment in answer.comments) >= 2


class Cutter:
    """A network that cuts the first connection after so many bytes of its answer, and leaves the others alone."""

    def __init__(self, port: int, cut_at_bytes: int) -> None:
        self._port = port
        self._left_bytes: int | None = cut_at_bytes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there = await asyncio.open_connection("127.0.0.1", self._port)
        left, self._left_bytes = self._left_bytes, None
        back = asyncio.create_task(self._pump(reader, there, None))
        await self._pump(there_reader, writer, left)
        back.cancel()
        for each in (writer, there):
            each.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None) -> None:
        while data := await reader.read(65536):
            if left is not None:
                data = data[:left]
                left -= len(data)
            writer.write(data)
            if left == 0:
                return


@pytest.mark.parametrize("cut_at_bytes", [900, 1000, 1100, 1150, 1237, 1500, 2000])
async def test_behind_a_gateway_like_this_one_no_character_is_lost_or_doubled_and_it_is_made_once(cut_at_bytes: int) -> None:
    texts = [f"part {at} \u6f22 " for at in range(12)]
    thought = [chunk(reasoning_content=f"thought {at} ") for at in range(4)]
    play = events(ROLE, *thought, *map(chunk, texts), STOP, "[DONE]")
    async with ScriptedUpstream(play) as origin, serving(settings_for(origin.url)) as near:
        server = await asyncio.start_server(Cutter(near.port, cut_at_bytes).serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with serving(settings(url, "resume", Cut(resume="cursor"))) as gateway:
            answer = await stream(gateway.port)
            assert said(answer) == ("".join(texts), "stop", None)
            one_answer(answer)
            reasoning = "".join(
                choice["delta"].get("reasoning_content") or ""
                for event in answer.events
                if event.data != "[DONE]"
                for choice in json.loads(event.data)["choices"]
            )
            assert reasoning == "".join(f"thought {at} " for at in range(4))
            assert len(origin.attempts) == 1
            assert gateway.metric("decluster_continuations_total", mode="resume", result="continued") == 1
        server.close()
        await server.wait_closed()
