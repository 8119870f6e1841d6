"""A client that comes back goes on exactly there, for the price of one generation: on the wire, with a real gateway."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from support import plays
from support import sse as strict
from support.chunks import DONE, ROLE, STOP, chunk, collect, compact, words
from support.client import Answer, Client, ask, chat_body
from support.gateway import Running, serving, settings_for
from support.plays import Play, Write, sse
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

JSON = [("content-type", "application/json"), ("authorization", "Bearer test-key")]
KEYED = [*JSON, ("idempotency-key", "one")]
TEXTS = ("Hello ", "wor😀ld", " again")
WHOLE = "".join(TEXTS)
TALK = plays.events(*words(*TEXTS))


def after(number: int | str) -> list[tuple[str, str]]:
    return [*KEYED, ("last-event-id", str(number))]


def content(answer: Answer) -> str:
    return collect(event.data for event in answer.events).first.content


def ids(answer: Answer) -> list[int]:
    return [int(line[4:]) for line in answer.body.split(b"\n") if line.startswith(b"id: ")]


def error(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()["error"]
    return found


async def again(gateway: Running, headers: list[tuple[str, str]] = KEYED, **more: Any) -> Answer:
    return await ask(gateway.port, body=chat_body(**more), headers=headers)


# The form of a resumable stream


async def test_each_event_carries_one_id_and_they_count_from_one() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await again(gateway)
        assert answer.whole
        assert ids(answer) == list(range(1, len(answer.events) + 1))
        assert all(sum(line.startswith(b"id:") for line in event.lines) == 1 for event in answer.events)
        assert content(answer) == WHOLE
        assert answer.events[-1].data == DONE


async def test_a_request_without_key_or_cursor_has_no_ids_and_is_not_kept() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert ids(await again(gateway, JSON)) == []
        assert ids(await again(gateway, JSON, stream_options={"include_usage": False})) == []
        assert len(upstream.attempts) == 2
        assert len(gateway.gateway.desk.memory) == 0


async def test_places_stay_here_and_the_key_goes_on_beside_the_clients_own_credential() -> None:
    plays_ = (TALK, plays.json(b'{"choices":[]}'))
    async with ScriptedUpstream(*plays_) as upstream, serving(settings_for(upstream.url)) as gateway:
        await again(gateway, after(0), stream_options={"cursor_resume": 0})
        assert b"last-event-id" not in upstream.attempts[0].names
        assert b"cursor_resume" not in upstream.attempts[0].body
        await again(gateway, stream=False)
        assert [attempt.named(b"idempotency-key") for attempt in upstream.attempts] == [[b"one"]] * 2


async def test_beside_the_gateways_own_key_which_all_share_a_clients_key_does_not_go_on() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url, upstream={"api_key": "own"})) as gateway:
        await again(gateway)
        assert b"idempotency-key" not in upstream.attempts[0].names


async def test_switched_off_the_key_is_the_upstreams_to_understand() -> None:
    settings = {"resume": {"enabled": False}}
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        assert ids(await again(gateway)) == []
        assert upstream.attempts[0].named(b"idempotency-key") == [b"one"]


async def test_heartbeats_are_one_line_once_an_id_was_sent_and_whole_before() -> None:
    play = Play((Write(b"", gated=True), Write(sse([ROLE, chunk("a")]), gated=True), Write(sse([STOP, DONE]), gated=True)))
    settings = {"heartbeat": {"every": 0.05}}
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=KEYED)
            await client.until(lambda answer: answer.body.startswith(b": keepalive\n\n"))
            upstream.go(2)
            answer = await client.until(lambda answer: answer.body.endswith(b"\n\n: keepalive\n"))
            upstream.go()
            await client.ended()
        assert content(answer) == "a"
        behind = answer.body[answer.body.index(b"id: 1") :]
        assert b": keepalive\n\n" not in behind
        await gateway.idle()
        assert gateway.metric("decluster_heartbeats_total") >= 2


# Coming back


@pytest.mark.parametrize("number", range(7))
async def test_after_the_last_event_that_it_had_a_client_goes_on_with_the_next(number: int) -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        first = await again(gateway)
        answer = await again(gateway, after(number))
        assert answer.status == 200
        assert answer.whole
        assert [event.data for event in answer.events] == [event.data for event in first.events[number:]]
        assert ids(answer) == list(range(number + 1, 7))
        assert len(upstream.attempts) == 1


@pytest.mark.parametrize("cursor", range(len(WHOLE) + 2))
async def test_from_its_cursor_on_a_client_gets_the_rest_of_the_text(cursor: int) -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        await again(gateway)
        answer = await again(gateway, stream_options={"cursor_resume": cursor})
        # a place inside the pair of the emoji counts as before it
        expected = WHOLE.encode("utf-16-le")[2 * (cursor - (cursor == WHOLE.index("😀") + 1)) :].decode("utf-16-le")
        assert content(answer) == expected
        assert answer.events[-1].data == DONE
        assert len(upstream.attempts) == 1


async def test_the_body_alone_names_a_stream_that_was_asked_for_with_a_cursor() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        first = await again(gateway, JSON, stream_options={"cursor_resume": 0})
        assert ids(first)
        answer = await again(gateway, JSON, stream_options={"cursor_resume": 8})
        assert content(answer) == WHOLE[8:]
        assert content(await again(gateway, [*JSON, ("last-event-id", "3")], stream_options={"cursor_resume": 0})) == TEXTS[2]
        assert len(upstream.attempts) == 1
        await again(gateway, JSON, stream_options={"cursor_resume": 0}, seed=1)
        assert len(upstream.attempts) == 2


async def test_without_a_place_the_same_stream_begins_anew() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert (await again(gateway)).body == (await again(gateway)).body
        assert len(upstream.attempts) == 1
        await gateway.idle()
        assert gateway.metric("decluster_resumes_total", result="replayed") == 1


async def test_the_header_wins_over_the_cursor() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        await again(gateway)
        assert content(await again(gateway, after(3), stream_options={"cursor_resume": 1})) == TEXTS[2]


async def test_while_nobody_is_there_the_upstream_is_read_on() -> None:
    play = plays.gated(sse([ROLE, chunk("one ")]), sse([chunk("two ")]), sse([chunk("three")]), sse([STOP, DONE]))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=KEYED)
            upstream.go()
            answer = await client.until(lambda answer: b"one" in answer.body)
            last = ids(answer)[-1]
            client.leave(abruptly=True)
        await gateway.idle()
        upstream.go()
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=after(last))
            await client.until(lambda answer: b"two" in answer.body)
            upstream.go(2)
            answer = await client.ended()
        assert answer.whole
        assert content(answer) == "two three"
        assert len(upstream.attempts) == 1
        await gateway.idle()
        assert gateway.metric("decluster_resumes_total", result="resumed") == 1
        assert gateway.metric("decluster_stream_end_total", reason="whole") == 1
        assert gateway.metric("decluster_upstream_attempts_total") == 1


async def test_a_double_click_joins_the_running_stream() -> None:
    play = plays.gated(sse([ROLE, chunk("one ")]), sse([chunk("two"), STOP, DONE]))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        clients = [await Client.to(gateway.port) for _ in range(5)]
        for client in clients:
            client.ask(body=chat_body(), headers=KEYED)
        upstream.go()
        for client in clients:
            await client.until(lambda answer: b"one" in answer.body)
        upstream.go()
        bodies = {(await client.ended()).body for client in clients}
        assert len(bodies) == 1
        assert len(upstream.attempts) == 1
        for client in clients:
            client.leave()
        await gateway.idle()
        assert gateway.metric("decluster_resumes_total", result="joined") == 4


async def test_a_place_beyond_what_there_is_waits_while_the_stream_runs() -> None:
    play = plays.gated(sse([ROLE, chunk("one ")]), sse([chunk("two "), chunk("three"), STOP, DONE]))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        clients = [await Client.to(gateway.port) for _ in range(3)]
        clients[0].ask(body=chat_body(), headers=KEYED)
        upstream.go()
        await clients[0].until(lambda answer: b"one" in answer.body)
        clients[1].ask(body=chat_body(), headers=after(3))
        clients[2].ask(body=chat_body(stream_options={"cursor_resume": 6}), headers=KEYED)
        while len(gateway.gateway.desk.followers) < 3:
            await asyncio.sleep(0)
        assert clients[1].answer.body == clients[2].answer.body == b""
        upstream.go()
        assert content(await clients[1].ended()) == "three"
        assert content(await clients[2].ended()) == "o three"
        for client in clients:
            client.leave()


async def test_a_place_beyond_the_end_is_the_clients_mistake() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        await again(gateway)
        for answer in (await again(gateway, after(7)), await again(gateway, stream_options={"cursor_resume": 99})):
            assert answer.status == 400
            assert error(answer)["code"] == "invalid_control"
            assert "beyond the end" in error(answer)["message"]


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "1 2", "9" * 30, "one-3"])
async def test_a_last_event_id_that_is_none_of_ours_is_refused_by_its_name(value: str) -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await again(gateway, after(value))
        assert answer.status == 400
        assert (error(answer)["code"], error(answer)["param"]) == ("invalid_control", "Last-Event-ID")
        assert upstream.attempts == []


# Refusals


BODIES = {
    "/v1/chat/completions": {"model": "m-test", "stream": True, "messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"model": "m-test", "stream": True, "prompt": "hi"},
    "/v1/responses": {"model": "m-test", "stream": True, "input": "hi"},
    "/v1/messages": {"model": "m-test", "stream": True, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
}
EVENTS = {
    "/v1/chat/completions": TALK,
    "/v1/completions": plays.events(
        *(compact({"id": "c", "choices": [{"index": 0, "text": text, "finish_reason": None}]}) for text in TEXTS),
        compact({"id": "c", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}),
        DONE,
    ),
    "/v1/responses": plays.events(
        compact({"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1", "status": "in_progress"}}),
        *(
            compact({"type": "response.output_text.delta", "sequence_number": number, "item_id": "m", "delta": text})
            for number, text in enumerate(TEXTS, 1)
        ),
        compact({"type": "response.completed", "sequence_number": 4, "response": {"id": "resp_1", "status": "completed"}}),
    ),
    "/v1/messages": plays.events(
        compact({"type": "message_start", "message": {"id": "m", "content": []}}),
        compact({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        *(compact({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}) for text in TEXTS),
        compact({"type": "content_block_stop", "index": 0}),
        compact({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        compact({"type": "message_stop"}),
    ),
}
PATHS = pytest.mark.parametrize("path", EVENTS)


@PATHS
async def test_in_every_dialect_each_place_gives_the_rest(path: str) -> None:
    body = compact(BODIES[path]).encode()
    async with ScriptedUpstream(EVENTS[path]) as upstream, serving(settings_for(upstream.url)) as gateway:
        first = await ask(gateway.port, "POST", path, body, KEYED)
        datas = [event.data for event in first.events]
        for number in range(1, len(datas)):
            answer = await ask(gateway.port, "POST", path, body, after(number))
            assert [event.data for event in answer.events] == datas[number:]
            assert [event.name for event in answer.events] == [event.name for event in first.events[number:]]
        if path != "/v1/messages":  # Anthropic's API has no stream_options; a gateway's client may send them all the same
            assert len(upstream.attempts) == 1
        cut = await ask(gateway.port, "POST", path, compact({**BODIES[path], "stream_options": {"cursor_resume": 8}}).encode(), KEYED)
        assert "".join(map(text_of, (event.data for event in cut.events))) == WHOLE[8:]
        assert len(upstream.attempts) == 1


def text_of(data: str) -> str:
    if data == DONE:
        return ""
    top = json.loads(data)
    if top.get("choices"):
        return str(top["choices"][0].get("text") or top["choices"][0].get("delta", {}).get("content") or "")
    delta = top.get("delta")
    return delta if isinstance(delta, str) else (delta or {}).get("text", "")


@PATHS
async def test_conflicts_and_unknown_streams_are_told_in_the_dialects_own_shape(path: str) -> None:
    body = compact(BODIES[path]).encode()
    other = compact({**BODIES[path], "temperature": 1}).encode()
    async with ScriptedUpstream(EVENTS[path]) as upstream, serving(settings_for(upstream.url)) as gateway:
        await ask(gateway.port, "POST", path, body, KEYED)
        conflict = await ask(gateway.port, "POST", path, other, KEYED)
        stranger = [*KEYED[:1], ("authorization", "Bearer another"), *KEYED[2:], ("last-event-id", "1")]
        unknown = await ask(gateway.port, "POST", path, body, stranger)
        never = await ask(gateway.port, "POST", path, body, [*JSON, ("idempotency-key", "never"), ("last-event-id", "1")])
        assert (conflict.status, error(conflict)["code"]) == (409, "idempotency_conflict")
        assert (unknown.status, error(unknown)["code"]) == (404, "stream_unknown")
        assert unknown.json() == never.json()  # a stranger learns nothing
        for answer in (conflict, unknown):
            assert (answer.json().get("type") == "error") == (path == "/v1/messages")
        assert len(upstream.attempts) == 1
        await gateway.idle()
        assert gateway.metric("decluster_resumes_total", result="conflict") == 1
        assert gateway.metric("decluster_resumes_total", result="unknown") == 2


async def test_another_credential_with_the_same_key_has_a_stream_of_its_own() -> None:
    async with ScriptedUpstream(TALK, plays.events(*words("other"))) as upstream, serving(settings_for(upstream.url)) as gateway:
        await again(gateway)
        other = [("content-type", "application/json"), ("authorization", "Bearer another"), ("idempotency-key", "one")]
        assert content(await again(gateway, other)) == "other"
        assert content(await again(gateway)) == WHOLE


async def test_what_is_no_longer_held_is_told_so_and_can_be_asked_for_anew() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        await again(gateway)
        memory = gateway.gateway.desk.memory
        [recording] = [memory.get(name) for name in memory._held]
        assert recording is not None
        memory.drop(recording, remember=True)
        answer = await again(gateway, after(2))
        assert (answer.status, error(answer)["code"]) == (410, "stream_expired")
        assert content(await again(gateway)) == WHOLE
        assert len(upstream.attempts) == 2
        await gateway.idle()
        assert gateway.metric("decluster_resumes_total", result="expired") == 1


async def test_a_stream_is_held_for_a_while_after_its_end_and_then_goes() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url, resume={"hold": 0.05})) as gateway:
        await again(gateway)
        while len(gateway.gateway.desk.memory):
            await asyncio.sleep(0.01)
        assert (await again(gateway, after(2))).status == 410
        assert gateway.gateway.desk.memory.bytes == 0


async def test_pacing_may_differ_in_the_second_request_what_is_delivered_may_not() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        await again(gateway)
        for same in ({"chunk_aggr": 1}, {"stream_options": {"cluster_hint": False}}, {"backoff_ms": 5}, {"extra_body": {"chunk_aggr": 3}}):
            assert content(await again(gateway, **same)) == WHOLE
        assert content(await again(gateway, [*KEYED, ("x-client-streams", "raw"), ("x-stream-timing", "true")])) == WHOLE
        for other in ({"reasoning_format": "hidden"}, {"stream_reasoning": False}, {"max_reasoning_tokens": 5}):
            assert (await again(gateway, **other)).status == 409
        assert (await again(gateway, [*KEYED, ("x-cluster", "true")])).status == 409


async def test_white_space_and_the_order_of_members_make_no_other_body() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        await again(gateway)
        turned = json.dumps(dict(reversed(json.loads(chat_body()).items())), indent=1).encode()
        turned = turned.replace(b'{\n   "role": "user",\n   "content": "hi"\n  }', b'{"role": "user", "content": "hi"}')
        turned = turned.replace(b"[\n  {", b"[{").replace(b"}\n ]", b"}]")
        assert (await ask(gateway.port, body=turned, headers=KEYED)).status == 200


# Ends


CUT = Play((Write(sse([ROLE, chunk("a"), chunk("b")])),), end="reset")
REPORTED = plays.events(ROLE, chunk("a"), '{"error":{"message":"broken","code":"server_error"}}')


@pytest.mark.parametrize("play", [CUT, REPORTED], ids=["a reset", "an error event"])
async def test_an_error_ending_is_the_same_for_who_comes_back(play: Play) -> None:
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        first = await again(gateway)
        assert "error" in json.loads(first.events[-1].data)
        answer = await again(gateway, after(ids(first)[-2]))
        assert [event.data for event in answer.events] == [first.events[-1].data]
        assert (await again(gateway)).body == first.body
        assert len(upstream.attempts) == 1


async def test_a_refusal_before_any_content_leaves_nothing_to_resume_and_the_same_key_asks_again() -> None:
    refusal = plays.json(b'{"error":{"message":"slow down"}}', 400, (b"x-why", b"so"))
    async with ScriptedUpstream(refusal, TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await again(gateway)
        assert (answer.status, answer.header("x-why"), answer.json()) == (400, "so", {"error": {"message": "slow down"}})
        assert (await again(gateway, after(1))).status == 404
        assert content(await again(gateway)) == WHOLE
        assert len(upstream.attempts) == 2


async def test_a_refusal_after_heartbeats_is_told_in_the_stream() -> None:
    refusal = Play((Write(b'{"error":{"message":"no such model"}}', gated=True),), 404, plays.JSON, header_delay_s=0.3)
    async with ScriptedUpstream(refusal) as upstream, serving(settings_for(upstream.url, heartbeat={"every": 0.05})) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=KEYED)
            await client.until(lambda answer: answer.frames)
            upstream.go()
            answer = await client.ended()
        assert (answer.status, answer.whole) == (200, True)
        assert [json.loads(event.data)["error"]["message"] for event in answer.events] == ["no such model"]


async def test_when_nobody_comes_back_the_upstream_is_let_go_of_and_the_stream_ends_honestly() -> None:
    play = Play((Write(sse([ROLE, chunk("a")])),), end="hang")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, resume={"grace": 0.1})) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=KEYED)
            await client.until(lambda answer: answer.frames)
        await upstream.left(upstream.attempts[0])
        while gateway.gateway.desk.recording:
            await asyncio.sleep(0.01)
        answer = await again(gateway, after(2))
        assert [json.loads(event.data)["error"]["code"] for event in answer.events] == ["stream_abandoned"]
        assert gateway.metric("decluster_stream_end_total", reason="client_gone") == 1
        assert len(upstream.attempts) == 1


async def test_when_nobody_comes_back_before_the_answer_begins_nothing_is_left() -> None:
    async with (
        ScriptedUpstream(Play(header_delay_s=None)) as upstream,
        serving(settings_for(upstream.url, resume={"grace": 0.1})) as gateway,
    ):
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=KEYED)
            await upstream.asked()
        await upstream.left(upstream.attempts[0])
        while gateway.gateway.desk.recording:
            await asyncio.sleep(0.01)
        assert (await again(gateway, after(2))).status == 404
        assert len(gateway.gateway.desk.memory) == 0


async def test_shutting_down_ends_the_stream_with_an_error_for_those_who_are_there() -> None:
    play = Play((Write(sse([ROLE, chunk("a")])),), end="hang")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, shutdown={"grace": 0.1})) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=KEYED)
            await client.until(lambda answer: answer.frames)
            await gateway.shut_down()
            answer = await client.ended()
        assert json.loads(answer.events[-1].data)["error"]["code"] == "shutting_down"
        assert answer.whole


async def test_shutting_down_does_not_wait_for_clients_that_cannot_come_back() -> None:
    play = Play((Write(sse([ROLE, chunk("a")])),), end="hang")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, shutdown={"grace": 1000})) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=KEYED)
            await client.until(lambda answer: answer.frames)
        await gateway.idle()
        async with asyncio.timeout(20):
            await gateway.shut_down()
        assert upstream.attempts[0].left_at is not None


async def test_what_a_live_viewer_lost_is_lost_for_all_and_said_in_the_stream() -> None:
    text = "0123456789abcdef " * 960
    body = tuple(Write(sse([chunk(text)] * 10)) for _ in range(60))
    play = Play((Write(sse([ROLE])), *body, Write(sse([STOP, DONE]))))
    settings = {"overflow": "drop_oldest", "limits": {"stream_bytes": 2**16}, "pacing": {"mode": "raw"}}
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, **settings)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=KEYED)
            await client.until(lambda answer: answer.frames)
            client.stop_reading()
            await upstream.until(lambda: upstream.attempts[0].finished)
            client.read_on()
            answer = await client.ended()
        assert b": decluster dropped about" in answer.body
        assert strict.read(answer.body)[2] == b""
        replayed = await again(gateway)
        assert replayed.body == answer.body


# Responses by their id, and protocols that are not known


async def test_a_responses_stream_is_served_by_its_id_to_who_asked_for_it() -> None:
    path = "/v1/responses"
    plays_ = (EVENTS[path], plays.json(b'{"error":{"message":"not stored"}}', 404))
    async with ScriptedUpstream(*plays_) as upstream, serving(settings_for(upstream.url)) as gateway:
        first = await ask(gateway.port, "POST", path, compact(BODIES[path]).encode(), KEYED)
        for start in (-1, 0, 2, 4):
            query = "" if start < 0 else f"&starting_after={start}"
            answer = await ask(gateway.port, "GET", f"{path}/resp_1?stream=true{query}", None, JSON)
            assert [event.data for event in answer.events] == [event.data for event in first.events[start + 1 :]]
        garbage = await ask(gateway.port, "GET", f"{path}/resp_1?stream=true&starting_after=x", None, JSON)
        assert (garbage.status, error(garbage)["param"]) == (400, "starting_after")
        assert len(upstream.attempts) == 1
        stranger = await ask(gateway.port, "GET", f"{path}/resp_1?stream=true", None, [("authorization", "Bearer another")])
        assert stranger.status == 404
        assert (await ask(gateway.port, "GET", f"{path}/resp_1", None, JSON)).status == 404
        assert (await ask(gateway.port, "GET", f"{path}/resp_2?stream=true", None, JSON)).status == 404
        assert len(upstream.attempts) == 4


async def test_a_stream_of_a_protocol_that_is_not_known_is_resumable_by_its_events() -> None:
    play = plays.events("1", "2", "3")
    body = b'{"stream":true,"input":"x"}'
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        first = await ask(gateway.port, "POST", "/v1/audio/speech", body, KEYED)
        assert first.body == b"id: 1\ndata: 1\n\nid: 2\ndata: 2\n\nid: 3\ndata: 3\n\n"
        answer = await ask(gateway.port, "POST", "/v1/audio/speech", body, after(2))
        assert answer.body == b"id: 3\ndata: 3\n\n"
        assert (await ask(gateway.port, "POST", "/v1/audio/speech", b'{"stream":true}', KEYED)).status == 409
        assert len(upstream.attempts) == 1


async def test_an_answer_there_that_is_no_stream_passes_whole_and_is_not_kept() -> None:
    play = plays.json(b'{"text":"hello"}', 200, (b"x-own", b"1"))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        for _ in range(2):
            answer = await ask(gateway.port, "POST", "/v1/audio/speech", b'{"stream":true}', KEYED)
            assert (answer.status, answer.body, answer.header("x-own")) == (200, b'{"text":"hello"}', "1")
        assert len(upstream.attempts) == 2
