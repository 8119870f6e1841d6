"""Cost and budgets over real sockets: what is counted, and how an answer ends that has used up what it may."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest

from gateway.settings import Client as Key
from gateway.settings import ModelPrice, Route, RouteTarget
from support import plays
from support.chunks import DONE, ROLE, STOP, chunk, collect, compact
from support.client import Answer, Client, ask, chat_body, stream
from support.gateway import Running, serving, settings_for
from support.plays import Play, Write, sse
from support.redis import redis_server
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

# A dollar for a million tokens of a prompt, a cent for a token of an answer.
PRICES = (ModelPrice(("m-*",), 1.0, 10_000.0, cache_read=0.1),)
COST = {"catalogue": False, "prices": PRICES}
KEY = "dck-alice-0123456789"
ALICE = [("authorization", f"Bearer {KEY}")]
USAGE = {"prompt_tokens": 1_000_000, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 500_000}}
USAGE_CHUNK = chunk(top={"choices": [], "usage": USAGE})
TOLD = 0.5 + 0.05 + 0.2
WORDS = [chunk("word ") for _ in range(20)]


def alice(budget_usd: float | None) -> tuple[Key, ...]:
    return (Key("alice", hashlib.sha256(KEY.encode()).hexdigest(), budget_per_day=budget_usd),)


async def cost(gateway: Running) -> float:
    await gateway.idle()
    await gateway.gateway.costs.settled()
    return gateway.metric("decluster_cost_usd_total", model="m-test")


def error_of(answer: Answer) -> dict[str, Any]:
    last = json.loads(answer.events[-1].data)
    return dict(last.get("error") or last["response"]["error"])


def content_of(answer: Answer) -> str:
    return collect(event.data for event in answer.events if "error" not in event.data).first.content


# Counting


async def test_a_streams_cost_is_counted_from_its_usage() -> None:
    async with ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, USAGE_CHUNK, DONE)) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            answer = await stream(gateway.port)
            assert await cost(gateway) == pytest.approx(TOLD)
            assert json.loads(upstream.attempts[0].body)["stream_options"] == {"include_usage": True}
            assert collect(event.data for event in answer.events).usages == []


async def test_a_client_that_asks_for_usage_gets_it_and_its_body_goes_on_as_it_came() -> None:
    async with ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, USAGE_CHUNK, DONE)) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            answer = await stream(gateway.port, stream_options={"include_usage": True})
            assert collect(event.data for event in answer.events).usages == [USAGE]
            assert bytes(upstream.attempts[0].body) == chat_body(stream_options={"include_usage": True})
            assert await cost(gateway) == pytest.approx(TOLD)


@pytest.mark.parametrize(("ask_usage", "asked"), [("auto", False), ("always", True), ("never", False)])
async def test_without_anybody_who_wants_it_a_body_is_not_touched(ask_usage: str, asked: bool) -> None:
    async with ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, DONE)) as upstream:
        async with serving(settings_for(upstream.url, cost={"catalogue": False, "ask_usage": ask_usage})) as gateway:
            await stream(gateway.port)
            body = bytes(upstream.attempts[0].body)
            assert (b"include_usage" in body) is asked
            assert asked or body == chat_body()


@pytest.mark.parametrize("elsewhere", [{}, {"tools": [{"parameters": {"stream_options": {"type": "string"}}}]}])
@pytest.mark.parametrize("options", [None, {"cluster_hint": False}, {"include_obfuscation": True, "cluster_hint": True}])
@pytest.mark.parametrize("route", [{}, {"include_obfuscation": False}])
async def test_it_is_asked_in_the_options_that_the_body_has_by_then(
    elsewhere: dict[str, Any], options: dict[str, Any] | None, route: dict[str, Any]
) -> None:
    """Controls have been taken out of them and members that a route sets put in: one `stream_options`, with all of it."""
    set_ = tuple((f"stream_options.{name}", value) for name, value in route.items())
    routes = (Route(("*",), (RouteTarget("scripted", set=set_),)),)
    async with ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, USAGE_CHUNK, DONE)) as upstream:
        async with serving(settings_for(upstream.url, cost=COST, routes=routes)) as gateway:
            answer = await stream(gateway.port, **elsewhere, **({} if options is None else {"stream_options": options}))
            body = bytes(upstream.attempts[0].body)
            own = {name: value for name, value in (options or {}).items() if name != "cluster_hint"}
            assert json.loads(body)["stream_options"] == {**own, **route, "include_usage": True}
            assert body.count(b'"stream_options"') == 1 + bool(elsewhere)
            assert (answer.status, collect(event.data for event in answer.events).usages) == (200, [])


async def test_an_upstream_that_is_not_to_be_asked_is_not_asked() -> None:
    async with ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, DONE)) as upstream:
        async with serving(settings_for(upstream.url, upstream={"ask_usage": False}, cost=COST)) as gateway:
            await stream(gateway.port)
            assert bytes(upstream.attempts[0].body) == chat_body()
            assert await cost(gateway) == pytest.approx(0.01 * 20, rel=0.3)  # estimated from what came


@pytest.mark.parametrize("status", [400, 422])
async def test_an_upstream_that_refuses_to_be_asked_is_asked_without_and_remembered(status: int) -> None:
    refusal = plays.json(b'{"error":{"message":"Extra inputs are not permitted","param":"stream_options"}}', status)
    whole = plays.events(ROLE, *WORDS, STOP, DONE)
    async with ScriptedUpstream(refusal, whole) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            assert [(await stream(gateway.port)).status for _ in range(2)] == [200, 200]
            bodies = [b"include_usage" in attempt.body for attempt in upstream.attempts]
            assert bodies == [True, False, False]


async def test_another_refusal_is_the_clients_to_read() -> None:
    refusal = plays.json(b'{"error":{"message":"no such model"}}', 400, (b"x-request-id", b"req_up"))
    async with ScriptedUpstream(refusal) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            answer = await stream(gateway.port)
            assert (answer.status, answer.body, answer.header("x-request-id")) == (400, b'{"error":{"message":"no such model"}}', "req_up")
            assert len(upstream.attempts) == 1


async def test_a_whole_answers_cost_is_counted_while_it_passes() -> None:
    body = json.dumps({"choices": [{"message": {"content": "x"}}], "usage": USAGE}).encode()
    async with ScriptedUpstream(plays.json(body)) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            answer = await stream(gateway.port, stream=False)
            assert answer.body == body
            assert await cost(gateway) == pytest.approx(TOLD)
            assert gateway.metric("gen_ai_client_token_usage_sum", gen_ai_token_type="output") == 20


async def test_in_messages_and_responses_too() -> None:
    start = {"type": "message_start", "message": {"model": "m-test", "content": [], "usage": {"input_tokens": 100, "output_tokens": 1}}}
    said = [
        start,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    ]
    done = {"type": "response.completed", "response": {"model": "m-test", "usage": {"input_tokens": 100, "output_tokens": 10}}}
    async with ScriptedUpstream(plays.events(*map(compact, said)), plays.events(compact(done))) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            for number, target in enumerate(("/v1/messages", "/v1/responses"), 1):
                await ask(gateway.port, target=target, body=chat_body(), headers=[("content-type", "application/json")])
                assert await cost(gateway) == pytest.approx(number * (0.1 + 0.0001))


async def test_what_a_client_that_left_has_cost_is_estimated() -> None:
    play = Play((Write(sse([ROLE, *WORDS])), Write(b"", gated=True)), end="hang")
    async with ScriptedUpstream(play) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            async with await Client.to(gateway.port) as client:
                client.ask(body=chat_body())
                await client.until(lambda answer: answer.frames)
            assert await cost(gateway) == pytest.approx(0.01 * 20, rel=0.3)


async def test_a_model_without_a_price_costs_nothing_that_is_known() -> None:
    async with ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, USAGE_CHUNK, DONE)) as upstream:
        async with serving(settings_for(upstream.url, cost={"catalogue": False})) as gateway:
            await stream(gateway.port)
            assert await cost(gateway) == 0.0


# Budgets of a request


@pytest.mark.parametrize("raw", ["smooth", "raw"])
async def test_a_stream_that_has_used_up_its_budget_ends_with_an_error_and_its_upstream_is_left(raw: str) -> None:
    play = plays.gated(sse([ROLE, *WORDS]), sse(WORDS), end="hang")
    async with ScriptedUpstream(play) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            async with await Client.to(gateway.port) as client:
                answer = client.ask(body=chat_body(), headers=[("x-budget-usd", "0.3"), ("x-client-streams", raw)])
                upstream.go()
                await client.until(lambda answer: b"word" in answer.body)
                upstream.go()
                await upstream.left(upstream.attempts[0])
                await client.ended()
            assert answer.status == 200
            assert answer.whole
            error = error_of(answer)
            assert (error["code"], error["type"]) == ("budget_exceeded", "billing_error")
            assert "x-budget-usd: 0.3" in error["message"]
            assert content_of(answer) == "word " * 40  # what came was paid for, so it is delivered
            assert DONE not in [event.data for event in answer.events]
            assert gateway.metric("decluster_stream_end_total", reason="budget_exceeded") == 1
            assert await cost(gateway) == pytest.approx(0.4, rel=0.3)


async def test_in_messages_the_error_has_anthropics_shape() -> None:
    said = [
        {"type": "message_start", "message": {"model": "m-test", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}} for _ in range(50)),
    ]
    async with ScriptedUpstream(plays.events(*map(compact, said), end="hang")) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            answer = await ask(gateway.port, target="/v1/messages", body=chat_body(), headers=[("x-budget-usd", "0.1")])
            error = json.loads(answer.events[-1].data)
            assert (answer.events[-1].name, error["error"]["type"]) == ("error", "billing_error")


async def test_a_stream_within_its_budget_is_whole() -> None:
    async with ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, DONE)) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            answer = await stream(gateway.port, headers=[("x-budget-usd", "1")])
            assert content_of(answer) == "word " * 20
            assert answer.events[-1].data == DONE


async def test_a_prompt_that_is_above_the_budget_is_refused_with_402() -> None:
    async with ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, DONE)) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            answer = await stream(gateway.port, headers=[("x-budget-usd", "0.0001")], prompt="word " * 1000)
            assert (answer.status, answer.json()["error"]["code"]) == (402, "budget_exceeded")
            assert answer.header("x-should-retry") == "false"
            assert upstream.attempts == []


async def test_a_budget_for_a_model_without_a_price_cannot_be_kept_and_says_so() -> None:
    async with ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, DONE)) as upstream:
        async with serving(settings_for(upstream.url, cost=COST)) as gateway:
            answer = await stream(gateway.port, headers=[("x-budget-usd", "1")], model="unheard-of")
            assert (answer.status, answer.json()["error"]["code"], answer.json()["error"]["param"]) == (400, "price_unknown", "model")
            assert upstream.attempts == []


# Budgets of a day


async def test_a_key_that_has_used_up_its_day_is_refused() -> None:
    async with ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, USAGE_CHUNK, DONE)) as upstream:
        async with serving(settings_for(upstream.url, clients=alice(1.0), cost=COST)) as gateway:
            for spent in (TOLD, 2 * TOLD):
                assert (await stream_as(gateway)).status == 200
                assert await cost(gateway) == pytest.approx(spent)
            answer = await stream_as(gateway)
            assert (answer.status, answer.json()["error"]["code"]) == (402, "budget_exceeded")
            assert 0 < int(answer.header("retry-after") or "") <= 86_400
            assert len(upstream.attempts) == 2


async def stream_as(gateway: Running) -> Answer:
    return await ask(gateway.port, body=chat_body(), headers=ALICE)


async def test_streams_at_once_share_what_is_left_of_the_day() -> None:
    play = plays.gated(sse([ROLE, *WORDS]), end="hang")
    async with ScriptedUpstream(play) as upstream:
        async with serving(settings_for(upstream.url, clients=alice(0.3), cost=COST)) as gateway:
            first, second = (asyncio.create_task(stream_as(gateway)) for _ in range(2))
            await upstream.asked(2)
            upstream.go(2)  # 0.2 USD each
            done, _ = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
            (ended,) = done
            assert error_of(ended.result())["code"] == "budget_exceeded"
            assert "a day" in error_of(ended.result())["message"]


async def test_a_day_that_is_kept_in_redis_outlives_the_process() -> None:
    async with redis_server() as redis, ScriptedUpstream(plays.events(ROLE, *WORDS, STOP, USAGE_CHUNK, DONE)) as upstream:
        settings = settings_for(upstream.url, clients=alice(TOLD), cost=COST, admission={"redis": redis.url})
        async with serving(settings) as gateway:
            assert (await stream_as(gateway)).status == 200
            await cost(gateway)
        async with serving(settings) as gateway:
            assert (await stream_as(gateway)).status == 402
