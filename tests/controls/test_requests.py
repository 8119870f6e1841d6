"""Controls end to end, over real sockets: what the client gets of them, and what an upstream that knows none of them sees."""

from __future__ import annotations

import json
from typing import Any

import pytest
import zstandard

from gateway.settings import ModelPrice, Reasoning, Settings
from support import plays, sse
from support.chunks import DONE, ROLE, STOP, Collected, chunk, collect
from support.client import Answer, Client, ask, chat_body, stream
from support.gateway import serving, settings_for
from support.upstream import Attempt, ScriptedUpstream

pytestmark = pytest.mark.anyio

THOUGHTS, ANSWER = [f"thought {n} " for n in range(30)], [f"word {n} " for n in range(30)]
STREAM = [ROLE, *(chunk(reasoning_content=text) for text in THOUGHTS), *map(chunk, ANSWER), STOP, DONE]
EVERY_CONTROL: dict[str, Any] = {
    "chunk_aggr": 4,
    "reasoning_chunk_buffer": 10,
    "max_reasoning_tokens": 1000,
    "stream_reasoning": True,
    "reasoning_cluster": True,
    "max_reasoning_clusters": 2,
    "cluster_strategy": "paged",
    "page_token_budget": 50,
    "backoff_ms": 1,
    "reasoning_format": "as_is",
    "stream_options": {"cluster_hint": True, "cursor_resume": 0, "chunk_overlap": 0},
    "extra_body": {"top_k": 5},
}
EVERY_HEADER = [("x-client-streams", "smooth"), ("x-cluster", "false"), ("x-stream-timing", "true"), ("x-budget-usd", "0.5")]

# what x-budget-usd wants to know; usage is another matter (tests/cost)
PRICED = {"catalogue": False, "ask_usage": "never", "prices": (ModelPrice(("m-test",), 1.0, 1.0),)}


async def asked(
    headers: Any = (), *, upstream: dict[str, Any] | None = None, events: list[str] | None = None, **body: Any
) -> tuple[Answer, Attempt]:
    async with ScriptedUpstream(plays.events(*(events or STREAM))) as scripted:
        settings = settings_for(scripted.url, upstream=upstream or {}, cost=PRICED)
        async with serving(settings) as gateway:
            answer = await stream(gateway.port, headers, **body)
            await gateway.idle()
        return answer, scripted.attempts[0] if scripted.attempts else Attempt("", "", [], 0.0)


def got(answer: Answer) -> Collected:
    assert answer.status == 200, answer.body
    return collect(event.data for event in answer.events)


def deltas(answer: Answer) -> list[dict[str, Any]]:
    return [json.loads(event.data)["choices"][0]["delta"] for event in answer.events if event.data != DONE]


async def test_a_request_with_every_control_works_and_the_upstream_sees_none() -> None:
    answer, attempt = await asked(EVERY_HEADER, **EVERY_CONTROL)
    assert (got(answer).first.reasoning, got(answer).first.content) == ("".join(THOUGHTS), "".join(ANSWER))
    assert json.loads(attempt.body) == {**json.loads(chat_body()), "top_k": 5}
    assert attempt.named(b"content-length") == [b"%d" % len(attempt.body)]
    assert not [name for name in attempt.names if name.startswith((b"x-c", b"x-b", b"x-s"))]


async def test_a_request_without_controls_reaches_the_upstream_byte_for_byte() -> None:
    body = b'{ "model" : "m-test", "stream":true , "seed": 1e3, "stream_options": {"include_usage": true}, "messages": [] }\n'
    async with ScriptedUpstream(plays.events(*STREAM)) as scripted, serving(settings_for(scripted.url)) as gateway:
        await ask(gateway.port, body=body)
        assert bytes(scripted.attempts[0].body) == body


async def test_an_upstream_that_knows_the_controls_gets_the_body_as_it_came() -> None:
    answer, attempt = await asked(EVERY_HEADER, upstream={"forward_extensions": True}, **EVERY_CONTROL)
    assert bytes(attempt.body) == chat_body(**EVERY_CONTROL)
    assert attempt.named(b"x-budget-usd") == [b"0.5"]
    assert got(answer).first.content == "".join(ANSWER)


async def test_a_whole_answer_is_asked_for_without_controls_too() -> None:
    async with ScriptedUpstream(plays.json(b'{"choices":[]}')) as scripted, serving(settings_for(scripted.url)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False, chunk_aggr=1, extra_body={"a": 1}))
        assert answer.status == 200
        assert json.loads(scripted.attempts[0].body) == {**json.loads(chat_body(stream=False)), "a": 1}


async def test_a_wrong_value_is_answered_before_anything_is_asked() -> None:
    for headers, body, named in (
        ([], {"chunk_aggr": "4"}, "chunk_aggr"),
        ([], {"extra_body": [1]}, "extra_body"),
        ([], {"extra_body": {"backoff_ms": -1}}, "backoff_ms"),
        ([("x-cluster", "maybe")], {}, "x-cluster"),
        ([], {"stream_options": {"chunk_overlap": 2}}, "stream_options.chunk_overlap"),
    ):
        answer, attempt = await asked(headers, **body)
        assert (answer.status, answer.json()["error"]["param"], answer.json()["error"]["code"]) == (400, named, "invalid_control")
        assert attempt.method == ""


async def test_the_stream_itself_can_be_asked_for_in_extra_body() -> None:
    async with ScriptedUpstream(plays.events(*STREAM)) as scripted, serving(settings_for(scripted.url)) as gateway:
        answer = await ask(gateway.port, body=b'{"model":"m-test","extra_body":{"stream":true}}')
        assert got(answer).first.content == "".join(ANSWER)
        assert bytes(scripted.attempts[0].body) == b'{"model":"m-test","stream":true}'


async def test_a_limit_is_passed_on_where_the_upstream_knows_one() -> None:
    answer, attempt = await asked(upstream={"reasoning_limit_field": "reasoning.max_tokens"}, max_reasoning_tokens=5)
    assert json.loads(attempt.body)["reasoning"] == {"max_tokens": 5}
    assert got(answer).first.reasoning == "".join(THOUGHTS)


async def test_a_limit_that_no_upstream_knows_is_kept_here() -> None:
    answer, _ = await asked(max_reasoning_tokens=5)
    reasoning = got(answer).first.reasoning
    assert 0 < len(reasoning) <= 4 * 5
    assert "".join(THOUGHTS).startswith(reasoning)
    assert got(answer).first.content == "".join(ANSWER)


async def test_hidden_reasoning_is_replaced_by_heartbeats_and_the_answer_is_whole() -> None:
    writes = [plays.sse([ROLE, chunk(reasoning_content="secret")]), plays.sse([chunk("answer"), STOP, DONE])]
    async with ScriptedUpstream(plays.gated(*writes)) as scripted:
        settings = settings_for(scripted.url, heartbeat={"every": 0.05})
        async with serving(settings) as gateway, await Client.to(gateway.port) as client:
            client.ask(body=chat_body(stream_reasoning=False))
            scripted.go()
            await client.until(lambda answer: len(answer.comments) >= 3)
            scripted.go()
            answer = await client.ended()
    assert got(answer).first.content == "answer"
    assert b"secret" not in answer.body


async def test_hidden_reasoning_counts_on_the_upstreams_side() -> None:
    async with ScriptedUpstream(plays.events(*STREAM)) as scripted, serving(settings_for(scripted.url)) as gateway:
        await stream(gateway.port, reasoning_format="hidden")
        await gateway.idle()
        assert gateway.metric("decluster_clusters_total", side="upstream", kind="reasoning") == 1
        assert gateway.metric("decluster_clusters_total", side="downstream", kind="reasoning") == 0


@pytest.mark.parametrize("most", [1, 4])
async def test_a_frame_holds_no_more_tokens_than_was_asked(most: int) -> None:
    tokens = [f" {n:03}" for n in range(60)]
    for headers in ([], [("x-client-streams", "raw")]):
        answer, _ = await asked(headers, events=[ROLE, *map(chunk, tokens), chunk("long " * 40), STOP, DONE], chunk_aggr=most)
        assert got(answer).first.content == "".join(tokens) + "long " * 40
        for frame in answer.frames:
            text = collect(event.data for event in sse.read(frame.data)[0]).first.content
            assert len(text) <= 4 * most + 4  # a token is four characters here, and a long word stays whole


async def test_frames_are_marked_open_chunk_and_close() -> None:
    answer, _ = await asked([("x-cluster", "true")])
    tags = [delta["reasoning_tag"] for delta in deltas(answer) if "reasoning_tag" in delta]
    assert (tags[0], {*tags[1:-1]}, tags[-1]) == ("think_open", {"think_chunk"}, "think_close")
    assert got(answer).first.reasoning == "".join(THOUGHTS)


async def test_timing_is_told_in_comments_before_the_first_token_and_the_last_frame() -> None:
    answer, _ = await asked([("x-stream-timing", "true")])
    first, last = answer.comments
    assert first.text.startswith(" timing first_token_ms=")
    assert last.text.startswith(" timing clusters_in=")
    assert first.end < answer.events[2].end
    assert last.end < answer.events[-1].end
    without, _ = await asked()
    assert not without.comments


async def test_pacing_can_be_switched_off_by_a_hint() -> None:
    raw, _ = await asked(stream_options={"cluster_hint": False})
    assert len(raw.frames) == 1
    smooth, attempt = await asked(stream_options={"cluster_hint": True, "include_usage": True})
    assert len(smooth.frames) > 5
    assert json.loads(attempt.body)["stream_options"] == {"include_usage": True}


async def test_pages_of_reasoning_leave_whole() -> None:
    answer, _ = await asked(cluster_strategy="paged", page_token_budget=40, backoff_ms=60)
    with_reasoning = [
        len(text) / 4 for frame in answer.frames if (text := collect(event.data for event in sse.read(frame.data)[0]).first.reasoning)
    ]
    assert got(answer).first.reasoning == "".join(THOUGHTS)
    assert max(with_reasoning) >= 36
    assert len(with_reasoning) <= 3


async def test_the_settings_decide_where_a_request_does_not() -> None:
    async with ScriptedUpstream(plays.events(*STREAM)) as scripted:
        settings: Settings = settings_for(scripted.url, reasoning=Reasoning(format="think_tags"))
        async with serving(settings) as gateway:
            by_settings = await stream(gateway.port)
            by_request = await stream(gateway.port, reasoning_format="reasoning")
    assert got(by_settings).first.content == f"<think>{''.join(THOUGHTS)}</think>{''.join(ANSWER)}"
    assert got(by_request).first.texts == {"reasoning": "".join(THOUGHTS), "content": "".join(ANSWER)}


async def test_other_apis_refuse_a_form_that_they_do_not_have_in_their_own_words() -> None:
    async with ScriptedUpstream(plays.events(*STREAM)) as scripted, serving(settings_for(scripted.url)) as gateway:
        answer = await ask(gateway.port, target="/v1/messages", body=chat_body(reasoning_format="reasoning"))
    assert answer.status == 400
    assert answer.json()["type"] == "error"
    assert "as_is or hidden" in answer.json()["error"]["message"]


async def test_a_prompt_with_half_a_surrogate_pair_is_still_a_stream_with_controls() -> None:
    body = b'{"model":"m-test","stream":true,"messages":[{"role":"user","content":"\\ud83d"}],"chunk_aggr":1}'
    async with ScriptedUpstream(plays.events(*STREAM)) as scripted, serving(settings_for(scripted.url)) as gateway:
        answer = await ask(gateway.port, body=body)
        assert got(answer).first.content == "".join(ANSWER)
        assert bytes(scripted.attempts[0].body) == body.replace(b',"chunk_aggr":1', b"")


async def test_a_compressed_body_with_controls_goes_on_plain() -> None:
    body = zstandard.ZstdCompressor().compress(chat_body(chunk_aggr=1))
    async with ScriptedUpstream(plays.events(*STREAM)) as scripted, serving(settings_for(scripted.url)) as gateway:
        await ask(gateway.port, body=body, headers=[("content-encoding", "zstd"), ("idempotency-key", "k")])
        attempt = scripted.attempts[0]
        assert json.loads(attempt.body) == json.loads(chat_body())
        assert attempt.named(b"content-encoding") == []
        assert attempt.named(b"idempotency-key") == [b"k"]
        plain = zstandard.ZstdCompressor().compress(chat_body())
        await ask(gateway.port, body=plain, headers=[("content-encoding", "zstd")])
        assert bytes(scripted.attempts[1].body) == plain


async def test_headers_are_checked_on_every_path_before_anything_is_asked() -> None:
    async with ScriptedUpstream(plays.events(*STREAM)) as scripted, serving(settings_for(scripted.url)) as gateway:
        for target in ("/v1/responses/r1?stream=true", "/v1/models"):
            answer = await ask(gateway.port, "GET", target, headers=[("x-stream-timing", "sometimes")])
            assert (answer.status, answer.json()["error"]["param"]) == (400, "x-stream-timing")
        assert not scripted.attempts
