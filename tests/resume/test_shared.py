"""Recordings in a real Redis: any gateway can go on with any stream, and none suffers where Redis or another gateway does."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from gateway.dialects.cursors import units
from support import plays
from support.chunks import DONE, ROLE, STOP, chunk, collect, compact, words
from support.client import Answer, Client, ask, chat_body
from support.gateway import serving, settings_for
from support.plays import Play, Write, sse
from support.redis import RedisServer, redis_server
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

KEYED = [("content-type", "application/json"), ("authorization", "Bearer test-key"), ("idempotency-key", "one")]
TALK = plays.events(*words("Hello ", "wor😀ld"))
TWO_HALVES = (sse([ROLE, chunk("one ")]), sse([chunk("two"), STOP, DONE]))


def after(number: int) -> list[tuple[str, str]]:
    return [*KEYED, ("last-event-id", str(number))]


def content(answer: Answer) -> str:
    return collect(event.data for event in answer.events).first.content


def code(answer: Answer) -> str:
    return str(json.loads(answer.events[-1].data)["error"]["code"])


async def asked(port: int, headers: list[tuple[str, str]] = KEYED, **more: object) -> Answer:
    return await ask(port, body=chat_body(**more), headers=headers)


def shared(redis: RedisServer, **more: float) -> dict[str, object]:
    return {"redis": redis.url, **more}


async def test_another_gateway_joins_a_running_stream_and_both_clients_get_the_same() -> None:
    async with redis_server() as redis, ScriptedUpstream(plays.gated(*TWO_HALVES)) as upstream:
        settings = settings_for(upstream.url, resume=shared(redis))
        async with serving(settings) as one, serving(settings) as two:
            clients = [await Client.to(gateway.port) for gateway in (one, two, two)]
            clients[0].ask(body=chat_body(), headers=KEYED)
            upstream.go()
            await clients[0].until(lambda answer: b"one" in answer.body)
            for client in clients[1:]:
                client.ask(body=chat_body(), headers=KEYED)
                await client.until(lambda answer: b"one" in answer.body)
            upstream.go()
            answers = [await client.ended() for client in clients]
            assert {answer.body for answer in answers} == {answers[0].body}
            assert {answer.header("x-request-id") for answer in answers} == {answers[0].header("x-request-id")}
            assert all(answer.whole for answer in answers)
            assert len(upstream.attempts) == 1
            for client in clients:
                client.leave()
            await two.idle()
            assert two.metric("decluster_resumes_total", result="resumed") + two.metric("decluster_resumes_total", result="joined") == 2


async def test_two_gateways_asked_at_once_ask_the_upstream_once() -> None:
    async with redis_server() as redis, ScriptedUpstream(TALK) as upstream:
        settings = settings_for(upstream.url, resume=shared(redis))
        async with serving(settings) as one, serving(settings) as two:
            for number in range(10):
                headers = [*KEYED[:2], ("idempotency-key", f"key {number}")]
                answers = await asyncio.gather(*(asked(gateway.port, headers) for gateway in (one, two, one, two)))
                assert {content(answer) for answer in answers} == {"Hello wor😀ld"}
                assert len(upstream.attempts) == number + 1


async def test_each_place_can_be_gone_on_from_at_another_gateway_after_the_end() -> None:
    async with redis_server() as redis, ScriptedUpstream(TALK) as upstream:
        settings = settings_for(upstream.url, resume=shared(redis))
        async with serving(settings) as one, serving(settings) as two:
            datas = [event.data for event in (await asked(one.port)).events]
            for number in range(len(datas) + 1):
                assert [event.data for event in (await asked(two.port, after(number))).events] == datas[number:]
            text = "Hello wor😀ld"
            for start in range(len(text)):
                answer = await asked(two.port, stream_options={"cursor_resume": units(text[:start])})
                assert content(answer) == text[start:]
            assert (await asked(two.port, after(99))).status == 400
            assert (await asked(two.port, seed=1)).status == 409
            assert len(upstream.attempts) == 1


async def test_responses_are_found_by_their_id_at_another_gateway() -> None:
    datas = [
        compact({"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1"}}),
        compact({"type": "response.output_text.delta", "sequence_number": 1, "item_id": "m", "delta": "a"}),
        compact({"type": "response.completed", "sequence_number": 2, "response": {"id": "resp_1"}}),
    ]
    async with redis_server() as redis, ScriptedUpstream(plays.events(*datas), plays.json(b"{}", 404)) as upstream:
        settings = settings_for(upstream.url, resume=shared(redis))
        async with serving(settings) as one, serving(settings) as two:
            await ask(one.port, "POST", "/v1/responses", b'{"model":"m","stream":true}', KEYED)
            answer = await ask(two.port, "GET", "/v1/responses/resp_1?stream=true&starting_after=0", None, KEYED[:2])
            assert [event.data for event in answer.events] == datas[1:]
            stranger = [("authorization", "Bearer another")]
            assert (await ask(two.port, "GET", "/v1/responses/resp_1?stream=true", None, stranger)).status == 404
            assert len(upstream.attempts) == 2


async def test_a_refusal_reaches_those_who_wait_elsewhere_and_the_key_asks_again() -> None:
    refusal = Play((Write(b'{"error":{"message":"no"}}', gated=True),), 400, plays.JSON)
    async with redis_server() as redis, ScriptedUpstream(refusal, TALK) as upstream:
        settings = settings_for(upstream.url, resume=shared(redis))
        async with serving(settings) as one, serving(settings) as two:
            first = asyncio.ensure_future(asked(one.port))
            await upstream.asked()
            second = asyncio.ensure_future(asked(two.port))
            while not two.gateway.desk.guests:
                await asyncio.sleep(0.001)
            upstream.go()
            for answer in (await first, await second):
                assert (answer.status, answer.json()) == (400, {"error": {"message": "no"}})
            assert content(await asked(two.port)) == "Hello wor😀ld"


async def test_a_client_elsewhere_keeps_the_stream_going() -> None:
    async with redis_server() as redis, ScriptedUpstream(plays.gated(*TWO_HALVES)) as upstream:
        settings = settings_for(upstream.url, resume=shared(redis, grace=0.05, lease=1.0))
        async with serving(settings) as one, serving(settings) as two:
            async with await Client.to(one.port) as first, await Client.to(two.port) as second:
                first.ask(body=chat_body(), headers=KEYED)
                upstream.go()
                await first.until(lambda answer: b"one" in answer.body)
                second.ask(body=chat_body(), headers=KEYED)
                await second.until(lambda answer: b"one" in answer.body)
                first.leave(abruptly=True)
                await one.idle()
                await asyncio.sleep(0.3)  # longer than the grace: it is what is tested
                upstream.go()
                assert content(await second.ended()) == "one two"
            assert len(upstream.attempts) == 1


async def test_a_gateway_that_shuts_down_sends_its_guests_to_another_one() -> None:
    async with redis_server() as redis, ScriptedUpstream(plays.gated(*TWO_HALVES)) as upstream:
        settings = settings_for(upstream.url, resume=shared(redis), shutdown={"grace": 0.1})
        async with serving(settings) as one, serving(settings) as two:
            async with await Client.to(one.port) as first, await Client.to(two.port) as second:
                first.ask(body=chat_body(), headers=KEYED)
                upstream.go()
                await first.until(lambda answer: b"one" in answer.body)
                second.ask(body=chat_body(), headers=KEYED)
                await second.until(lambda answer: b"one" in answer.body)
                await two.shut_down()
                answer = await second.ended()
                assert code(answer) == "shutting_down"
                upstream.go()
                assert content(await first.ended()) == "one two"
            assert content(await asked(one.port, after(2))) == "two"


async def test_a_gateway_that_shuts_down_finishes_what_can_be_resumed_elsewhere() -> None:
    async with redis_server() as redis, ScriptedUpstream(plays.gated(*TWO_HALVES)) as upstream:
        settings = settings_for(upstream.url, resume=shared(redis))
        async with serving(settings) as one, serving(settings) as two:
            async with await Client.to(one.port) as client:
                client.ask(body=chat_body(), headers=KEYED)
                upstream.go()
                await client.until(lambda answer: b"one" in answer.body)
            await one.idle()
            ending = asyncio.ensure_future(one.shut_down())
            await asyncio.sleep(0)
            upstream.go()
            await ending
            assert content(await asked(two.port, after(2))) == "two"
            assert len(upstream.attempts) == 1


# Trouble


async def test_without_redis_from_the_start_streams_are_resumable_in_their_own_gateway(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "decluster")
    async with redis_server() as redis, ScriptedUpstream(TALK) as upstream:
        await redis.kill()
        async with serving(settings_for(upstream.url, resume=shared(redis))) as gateway:
            for number in range(3):
                headers = [*KEYED[:2], ("idempotency-key", f"key {number}")]
                assert content(await asked(gateway.port, headers)) == "Hello wor😀ld"
                assert content(await asked(gateway.port, [*headers, ("last-event-id", "2")])) == "wor😀ld"
            assert len(upstream.attempts) == 3
    assert [record.message for record in caplog.records if "redis" in record.message] == [
        "redis failed: streams are resumable in this process only"
    ]


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_stream_does_not_notice_that_redis_is_gone(how: str, caplog: pytest.LogCaptureFixture) -> None:
    writes = [sse([ROLE, chunk("a ")]), *(sse([chunk(f"{number} ")]) for number in range(50)), sse([STOP, DONE])]
    async with redis_server() as redis, ScriptedUpstream(plays.gated(*writes)) as upstream:
        async with serving(settings_for(upstream.url, resume=shared(redis))) as gateway, await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=[*KEYED, ("x-client-streams", "raw")])
            upstream.go(10)
            await client.until(lambda answer: b"8 " in answer.body)
            if how == "killed":
                await redis.kill()
            else:
                redis.freeze()
            upstream.go(len(writes))
            answer = await client.ended()
            redis.thaw() if how == "frozen" else None
            assert content(answer) == "a " + "".join(f"{number} " for number in range(50))
            assert content(await asked(gateway.port, [*after(40), ("x-client-streams", "raw")])).startswith("38 ")
    assert sum("redis failed" in record.message for record in caplog.records) == (1 if how == "killed" else 0) or how == "frozen"


async def test_when_redis_is_back_new_streams_are_shared_again(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.journal.shared.REST_S", 0.05)
    async with redis_server() as redis, ScriptedUpstream(TALK) as upstream:
        settings = settings_for(upstream.url, resume=shared(redis))
        async with serving(settings) as one, serving(settings) as two:
            await redis.kill()
            await asked(one.port)
            await redis.start()
            await asyncio.sleep(0.1)  # what the gateway rests before it asks again
            headers = [*KEYED[:2], ("idempotency-key", "new")]
            await asked(one.port, headers)
            assert content(await asked(two.port, [*headers, ("last-event-id", "2")])) == "wor😀ld"
            assert len(upstream.attempts) == 2


async def test_a_long_stream_keeps_its_last_part_only_and_the_rest_is_expired() -> None:
    texts = [f"{number:04} " + "x" * 500 for number in range(400)]
    async with redis_server() as redis, ScriptedUpstream(plays.events(*words(*texts))) as upstream:
        settings = settings_for(upstream.url, resume=shared(redis, stream_bytes=65_536), pacing={"mode": "raw"})
        async with serving(settings) as one, serving(settings) as two:
            assert content(await asked(one.port)) == "".join(texts)
            for gateway in (one, two):
                assert content(await asked(gateway.port, after(390))) == "".join(texts[389:])
                for gone in (after(5), KEYED):
                    answer = await asked(gateway.port, gone)
                    assert (answer.status, answer.json()["error"]["code"]) == (410, "stream_expired")
