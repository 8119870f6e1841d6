"""Keys, limits and turns over real sockets: what a client sees of them, and that its upstream sees nothing of what was refused."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from gateway.settings import Client as Key
from gateway.settings import ModelLimit, Settings
from support import plays
from support.chunks import collect, words
from support.client import Answer, Client, ask, chat_body, head
from support.gateway import Running, serving, settings_for
from support.redis import redis_server
from support.upstream import ScriptedUpstream

from .conftest import Clock

pytestmark = pytest.mark.anyio

ALICE, BOB = "dck-alice-0123456789", "dck-bob-0123456789"
STREAM = plays.events(*words("hello ", "there"))


def key(name: str, secret: str, **limits: Any) -> Key:
    return Key(name, hashlib.sha256(secret.encode()).hexdigest(), **limits)


def settings(upstream: ScriptedUpstream, /, *clients: Key, **changes: Any) -> Settings:
    return settings_for(upstream.url, clients=clients or (key("alice", ALICE), key("bob", BOB)), **changes)


async def asked(port: int, secret: str | None = ALICE, target: str = "/v1/chat/completions", **more: Any) -> Answer:
    fields = [("content-type", "application/json")] + ([("authorization", f"Bearer {secret}")] if secret else [])
    return await ask(port, target=target, body=chat_body(**more), headers=fields)


def code(answer: Answer) -> str:
    return str(answer.json()["error"]["code"])


async def until_waiting(gateway: Running, count: int) -> None:
    """Wait until so many requests wait for their turn."""
    async with asyncio.timeout(20):
        while gateway.gateway.admission.gate.waiting != count:
            await asyncio.sleep(0.001)


# Keys


@pytest.mark.parametrize("secret", [None, "sk-somebody-elses", ALICE.upper()])
@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings"])
async def test_who_has_no_key_gets_nothing(target: str, secret: str | None) -> None:
    async with ScriptedUpstream(STREAM) as upstream, serving(settings(upstream)) as gateway:
        answer = await asked(gateway.port, secret, target)
        assert (answer.status, code(answer)) == (401, "invalid_api_key")
        assert answer.header("www-authenticate") == "Bearer"
        assert answer.header("x-request-id")
        assert upstream.attempts == []


async def test_in_messages_the_refusal_has_anthropics_shape() -> None:
    async with ScriptedUpstream(STREAM) as upstream, serving(settings(upstream)) as gateway:
        answer = await asked(gateway.port, "wrong", "/v1/messages")
        error = answer.json()
        assert (answer.status, error["type"], error["error"]["type"]) == (401, "error", "authentication_error")


async def test_other_paths_want_a_key_too_but_not_the_gateways_own() -> None:
    async with ScriptedUpstream(plays.json(b'{"data":[]}')) as upstream, serving(settings(upstream)) as gateway:
        assert (await ask(gateway.port, "GET", "/v1/models")).status == 401
        assert (await ask(gateway.port, "GET", "/v1/models", headers=[("x-api-key", BOB)])).status == 200
        assert (await ask(gateway.port, "GET", "/healthz")).status == 200
        assert (await ask(gateway.port, "GET", "/metrics")).status == 200


@pytest.mark.parametrize("own", [None, "sk-upstream"])
async def test_a_clients_key_never_reaches_the_upstream(own: str | None) -> None:
    async with ScriptedUpstream(STREAM) as upstream, serving(settings(upstream, upstream={"api_key": own})) as gateway:
        fields = [("authorization", f"Bearer {ALICE}"), ("x-api-key", ALICE), ("api-key", ALICE)]
        answer = await ask(gateway.port, body=chat_body(), headers=fields)
        assert answer.status == 200
        (attempt,) = upstream.attempts
        assert ALICE.encode() not in b"".join(value for _, value in attempt.fields)
        assert attempt.named(b"authorization") == ([b"Bearer sk-upstream"] if own else [])


# Limits a minute


async def test_too_many_requests_are_refused_before_the_upstream_is_asked(clock: Clock) -> None:
    async with ScriptedUpstream(STREAM) as upstream:
        async with serving(settings(upstream, key("alice", ALICE, requests_per_minute=2), key("bob", BOB))) as gateway:
            answers = [await asked(gateway.port) for _ in range(3)]
            assert [answer.status for answer in answers] == [200, 200, 429]
            refused = answers[-1]
            assert code(refused) == "rate_limited"
            assert int(refused.header("retry-after") or "") >= 1
            assert refused.header("x-ratelimit-limit-requests") == "2"
            assert refused.header("x-ratelimit-remaining-requests") == "0"
            assert (await asked(gateway.port, BOB)).status == 200
            assert len(upstream.attempts) == 3


async def test_all_clients_have_the_limit_that_admission_says(clock: Clock) -> None:
    async with ScriptedUpstream(STREAM) as upstream:
        clients = (key("alice", ALICE, requests_per_minute=2), key("bob", BOB))
        async with serving(settings(upstream, *clients, admission={"requests_per_minute": 1})) as gateway:
            assert [(await asked(gateway.port, ALICE)).status for _ in range(3)] == [200, 200, 429]
            assert [(await asked(gateway.port, BOB)).status for _ in range(2)] == [200, 429]


async def test_without_client_keys_limits_go_by_the_key_that_each_brings(clock: Clock) -> None:
    async with ScriptedUpstream(STREAM) as upstream:
        async with serving(settings_for(upstream.url, admission={"requests_per_minute": 1})) as gateway:
            statuses = [(await asked(gateway.port, secret)).status for secret in ("sk-1", "sk-1", "sk-2", None, None)]
            assert statuses == [200, 429, 200, 200, 429]


@pytest.mark.parametrize(("per_client", "statuses"), [(False, [200, 429]), (True, [200, 200])])
async def test_models_have_limits_of_their_own(clock: Clock, per_client: bool, statuses: list[int]) -> None:
    async with ScriptedUpstream(STREAM) as upstream:
        rule = ModelLimit(("m-*",), requests_per_minute=1, per_client=per_client)
        async with serving(settings(upstream, admission={"models": (rule,)})) as gateway:
            assert [(await asked(gateway.port, secret)).status for secret in (ALICE, BOB)] == statuses
            assert (await asked(gateway.port, model="other")).status == 200


async def test_tokens_that_an_answer_took_count_for_the_next(clock: Clock) -> None:
    used = plays.json(plays_usage(2000))
    async with ScriptedUpstream(used) as upstream:
        async with serving(settings(upstream, admission={"tokens_per_minute": 1500})) as gateway:
            assert (await asked(gateway.port, stream=False)).status == 200
            await gateway.idle()
            await gateway.gateway.costs.settled()
            refused = await asked(gateway.port, stream=False)
            assert (refused.status, code(refused)) == (429, "rate_limited")
            assert refused.header("x-ratelimit-limit-tokens") == "1500"
            assert (await asked(gateway.port, BOB, stream=False)).status == 200


async def test_the_tokens_of_a_stream_count_too_although_its_client_did_not_ask_for_them(clock: Clock) -> None:
    *chunks, done = words("a ", "b ")
    usage = '{"id":"chatcmpl-t1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":900,"completion_tokens":900}}'
    async with ScriptedUpstream(plays.events(*chunks, usage, done)) as upstream:
        async with serving(settings(upstream, admission={"tokens_per_minute": 1500})) as gateway:
            answer = await asked(gateway.port)
            assert collect(event.data for event in answer.events).usages == []
            await gateway.idle()
            await gateway.gateway.costs.settled()
            assert (await asked(gateway.port)).status == 429


def plays_usage(total: int) -> bytes:
    return b'{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":0}}' % total


# Turns


async def test_who_finds_no_room_waits_for_its_turn() -> None:
    async with ScriptedUpstream(plays.gated(STREAM.body)) as upstream:
        async with serving(settings(upstream, admission={"concurrent": 1, "wait": 15.0})) as gateway:
            first = asyncio.create_task(asked(gateway.port))
            await upstream.asked()
            second = asyncio.create_task(asked(gateway.port, BOB))
            await until_waiting(gateway, 1)
            assert len(upstream.attempts) == 1
            upstream.go(2)
            assert [answer.status for answer in await asyncio.gather(first, second)] == [200, 200]


@pytest.mark.parametrize(
    ("limit", "status", "told"),
    [({"concurrent": 1}, 503, "overloaded"), ({"concurrent_per_client": 1}, 429, "concurrency_limited")],
)
async def test_who_waited_long_enough_is_refused_with_a_status(limit: dict[str, int], status: int, told: str) -> None:
    async with ScriptedUpstream(plays.gated(STREAM.body)) as upstream:
        async with serving(settings(upstream, admission={**limit, "wait": 0.05})) as gateway:
            first = asyncio.create_task(asked(gateway.port))
            await upstream.asked()
            refused = await asked(gateway.port)
            assert (refused.status, code(refused)) == (status, told)
            assert refused.header("retry-after")
            assert len(upstream.attempts) == 1
            upstream.go()
            assert (await first).status == 200


async def test_one_client_that_has_all_its_turns_leaves_the_others_theirs() -> None:
    async with ScriptedUpstream(plays.gated(STREAM.body)) as upstream:
        clients = (key("alice", ALICE, concurrent=1), key("bob", BOB))
        async with serving(settings(upstream, *clients, admission={"wait": 0.0})) as gateway:
            first = asyncio.create_task(asked(gateway.port))
            await upstream.asked()
            assert (await asked(gateway.port)).status == 429
            other = asyncio.create_task(asked(gateway.port, BOB))
            await upstream.asked(2)
            upstream.go(2)
            assert [answer.status for answer in await asyncio.gather(first, other)] == [200, 200]


async def test_who_leaves_while_it_waits_is_forgotten_and_its_turn_goes_to_the_next() -> None:
    async with ScriptedUpstream(plays.gated(STREAM.body)) as upstream:
        async with serving(settings(upstream, admission={"concurrent": 1, "wait": 15.0})) as gateway:
            first = asyncio.create_task(asked(gateway.port))
            await upstream.asked()
            async with await Client.to(gateway.port) as leaving:
                leaving.ask(body=chat_body(), headers=[("authorization", f"Bearer {ALICE}")])
                await until_waiting(gateway, 1)
            await until_waiting(gateway, 0)
            third = asyncio.create_task(asked(gateway.port, BOB))
            await until_waiting(gateway, 1)
            upstream.go(2)
            assert [answer.status for answer in await asyncio.gather(first, third)] == [200, 200]
            assert len(upstream.attempts) == 2


async def test_a_place_is_given_back_whatever_ends_the_answer() -> None:
    trouble = [
        plays.events(end="reset"),
        plays.json(b'{"error":{"message":"no"}}', 400),
        plays.events(*words("a")[:2], end="reset"),
        plays.gated(STREAM.body),
        STREAM,
    ]
    async with ScriptedUpstream(*trouble) as upstream:
        async with serving(settings(upstream, admission={"concurrent": 1, "wait": 0.0})) as gateway:
            for _ in range(3):
                await asked(gateway.port)
                await gateway.idle()
            async with await Client.to(gateway.port) as leaving:
                leaving.ask(body=chat_body(), headers=[("authorization", f"Bearer {ALICE}")])
                await upstream.asked(4)
            await upstream.left(upstream.attempts[3])
            await gateway.idle()
            assert (await asked(gateway.port)).status == 200


async def test_at_the_end_who_waits_is_told_so() -> None:
    async with ScriptedUpstream(plays.gated(STREAM.body)) as upstream:
        async with serving(settings(upstream, admission={"concurrent": 1, "wait": 15.0})) as gateway:
            first = asyncio.create_task(asked(gateway.port))
            await upstream.asked()
            second = asyncio.create_task(asked(gateway.port))
            await until_waiting(gateway, 1)
            ending = asyncio.create_task(gateway.gateway.drain(15.0))
            refused = await second
            assert (refused.status, code(refused)) == (503, "shutting_down")
            upstream.go()
            assert (await first).status == 200
            await ending


async def test_a_body_that_is_refused_for_its_size_takes_no_place() -> None:
    async with ScriptedUpstream(STREAM) as upstream:
        async with serving(settings(upstream, admission={"concurrent": 1}, limits={"request_bytes": 2000})) as gateway:
            async with await Client.to(gateway.port) as client:
                client.expect()
                client.write(head("POST", "/v1/chat/completions", [("authorization", f"Bearer {ALICE}")], 10_000))
                assert (await client.ended()).status == 413
            assert (await asked(gateway.port)).status == 200


# Redis


async def test_two_gateways_on_one_redis_share_their_limits() -> None:
    async with redis_server() as redis, ScriptedUpstream(STREAM) as upstream:
        shared = settings(upstream, admission={"requests_per_minute": 3, "redis": redis.url})
        async with serving(shared) as first, serving(shared) as second:
            statuses = [(await asked(port)).status for port in (first.port, second.port, first.port, second.port)]
            assert statuses == [200, 200, 200, 429]


async def test_tokens_and_money_are_shared_too() -> None:
    from gateway.server.rates import Rates, Window

    window = Window("clients/a/tokens", "tokens", 1000)
    async with redis_server() as redis:
        first, second = Rates(redis.url), Rates(redis.url)
        assert await first.take([window], 10) is None
        await first.done([window], 10, 1400)
        assert await second.take([window], 10) is not None
        await first.spend("a", "2027-01-15", 0.25)
        await second.spend("a", "2027-01-15", 0.5)
        assert await first.spent_usd("a", "2027-01-15") == pytest.approx(0.75)
        await first.close()
        await second.close()


async def test_a_redis_that_is_gone_stops_nobody_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with redis_server() as redis, ScriptedUpstream(STREAM) as upstream:
        async with serving(settings(upstream, admission={"requests_per_minute": 1, "redis": redis.url})) as gateway:
            assert (await asked(gateway.port)).status == 200
            await redis.kill()
            assert [(await asked(gateway.port)).status for _ in range(3)] == [200] * 3
            told = [record for record in caplog.records if "admission.redis" in record.getMessage()]
            assert len(told) == 1


# A machine that is too busy


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/messages"])
async def test_while_the_loop_runs_late_new_answers_are_refused_and_running_ones_go_on(target: str) -> None:
    said = words("hello ", "there")
    play = plays.gated(plays.sse(said[:2]), plays.sse(said[2:]))
    async with ScriptedUpstream(play, STREAM) as upstream, serving(settings_for(upstream.url, admission={"late": 0.05})) as gateway:
        async with await Client.to(gateway.port) as running:
            running.ask(body=chat_body())
            await upstream.asked()
            upstream.go()
            await running.until(lambda answer: b"hello" in answer.body)
            gateway.gateway.lateness.mean_s = 0.3
            refused = await asked(gateway.port, target=target)
            assert refused.status == 503
            assert b"admission.late" in refused.body
            assert int(refused.header("retry-after") or "") >= 1
            assert len(upstream.attempts) == 1
            upstream.go()
            answer = await running.ended()
            assert b"there" in answer.body
            assert bytes(answer.body).endswith(b"data: [DONE]\n\n")
        gateway.gateway.lateness.mean_s = 0.0
        assert (await asked(gateway.port)).status == 200
