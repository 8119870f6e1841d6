"""Attempts before the first real content, over sockets: what the client sees of them, and what the upstreams do."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest

from gateway.settings import Route, RouteTarget, Settings
from support.chunks import ROLE, chunk, words
from support.client import Answer, Client, chat_body, stream
from support.gateway import Running, serving, settings_for
from support.plays import JSON, Play, Write
from support.upstream import ScriptedUpstream, nobody

pytestmark = pytest.mark.anyio
FAST = {"attempts": 3, "base": 0.001}
FIELDS = [("content-type", "application/json"), ("authorization", "Bearer test-key")]


def refusal(status: int, *fields: tuple[bytes, bytes], said: str = "no", **more: Any) -> Play:
    body = json.dumps({"error": {"message": said, "type": "t", **more}}).encode()
    return Play((Write(body),), status, (*JSON, *fields), framing="length")


def event(data: str) -> bytes:
    return b"data: " + data.encode() + b"\n\n"


def good() -> Play:
    return Play(tuple(Write(event(data)) for data in words("Hello", " there")))


def text_of(answer: Answer) -> str:
    found = ""
    for event in answer.events:
        if event.data != "[DONE]":
            for choice in json.loads(event.data)["choices"]:
                found += choice["delta"].get("content") or ""
    return found


PREAMBLE = Write(event(ROLE))
HELLO = Write(event(chunk("Hello")))
EVENT_500 = Write(b'data: {"error":{"message":"boom","type":"server_error","code":500}}\n\n')
BEFORE_CONTENT = {
    "503": refusal(503),
    "529": refusal(529),
    "524 in HTML": Play((Write(b"<html>524</html>"),), 524, ((b"content-type", b"text/html"),)),
    "closed before the status": Play(before_status=True),
    "reset after the head": Play((), end="reset"),
    "reset in the preamble": Play((PREAMBLE,), end="reset"),
    "reset in an event": Play((PREAMBLE, Write(b'data: {"choices":[{"del')), end="reset"),
    "an error event first": Play((EVENT_500,)),
    "an error behind the preamble": Play((PREAMBLE, EVENT_500)),
    "nothing": Play(()),
    "the preamble alone": Play((PREAMBLE,)),
    "[DONE] alone": Play((Write(b"data: [DONE]\n\n"),)),
    "HTML": Play((Write(b"<html>log in</html>"),), 200, ((b"content-type", b"text/html"),)),
    "an error in JSON under 200": Play((Write(b'{"error":{"message":"boom","type":"server_error"}}'),), 200, JSON),
    "bad JSON": Play((Write(b'data: {"choices": [\n\n'),)),
}


@pytest.mark.parametrize("trouble", BEFORE_CONTENT.values(), ids=BEFORE_CONTENT.keys())
async def test_trouble_before_content_is_not_seen_by_the_client(trouble: Play) -> None:
    async with ScriptedUpstream(trouble, good()) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        answer = await stream(gateway.port)
        assert (answer.status, text_of(answer), answer.events[-1].data) == (200, "Hello there", "[DONE]")
        assert len(upstream.attempts) == 2
        assert upstream.attempts[0].body == upstream.attempts[1].body
        assert gateway.metric("decluster_upstream_attempts_total", outcome="ok") == 1
        assert gateway.metric("decluster_upstream_attempts_total") == 2
        assert gateway.metric("decluster_stream_end_total", reason="whole") == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_the_client_must_mend_passes_as_it_came(status: int) -> None:
    async with ScriptedUpstream(refusal(status), good()) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        answer = await stream(gateway.port)
        assert (answer.status, answer.body, len(upstream.attempts)) == (status, refusal(status).body, 1)
        assert answer.header("x-should-retry") is None


async def test_the_last_refusal_passes_with_its_body_and_tells_the_sdk_to_leave_it() -> None:
    plays = (refusal(503, said="one"), refusal(503, said="two"), refusal(503, (b"x-request-id", b"r-3"), said="three"))
    async with ScriptedUpstream(*plays) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        answer = await stream(gateway.port)
        assert (answer.status, answer.body, len(upstream.attempts)) == (503, plays[2].body, 3)
        assert answer.header("x-request-id") == "r-3"
        assert answer.header("x-should-retry") == "false"


async def test_a_request_that_ends_its_connection_is_sent_once_an_attempt_and_once_for_a_stale_one() -> None:
    """Kept connections are there for each attempt, and the upstream dies of this request on any of them."""
    plays = (good(), good(), good(), Play(before_status=True, end="reset"))
    async with ScriptedUpstream(*plays) as upstream:
        async with serving(settings_for(upstream.url, retry=FAST)) as gateway:
            await asyncio.gather(*(stream(gateway.port, FIELDS) for _ in range(3)))  # three connections that can be kept
            assert (await stream(gateway.port, FIELDS)).status == 502
        assert len(upstream.attempts) - 3 == FAST["attempts"] + 1, "the first attempt met a kept connection, and no other did"


async def test_an_sdk_that_repeats_by_itself_is_not_multiplied() -> None:
    async with ScriptedUpstream(refusal(503)) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        answer = await stream(gateway.port, headers=[("x-stainless-retry-count", "1")])
        assert (answer.status, len(upstream.attempts)) == (503, 1)


async def test_a_first_attempt_of_an_sdk_is_repeated() -> None:
    async with ScriptedUpstream(refusal(503), good()) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        assert (await stream(gateway.port, headers=[("x-stainless-retry-count", "0")])).status == 200


async def test_a_wait_beyond_the_cap_passes_with_its_header() -> None:
    limited = refusal(429, (b"retry-after", b"20"), (b"retry-after-ms", b"20000"))
    async with ScriptedUpstream(limited) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        answer = await stream(gateway.port)
        assert (answer.status, answer.body, len(upstream.attempts)) == (429, limited.body, 1)
        assert (answer.header("retry-after"), answer.header("retry-after-ms")) == ("20", "20000")
        assert answer.header("x-should-retry") is None


async def test_a_huge_wait_is_not_left_to_an_sdk_that_would_ignore_it() -> None:
    async with (
        ScriptedUpstream(refusal(429, (b"retry-after", b"86400"))) as upstream,
        serving(settings_for(upstream.url, retry=FAST)) as gateway,
    ):
        answer = await stream(gateway.port)
        assert (answer.header("retry-after"), answer.header("x-should-retry"), len(upstream.attempts)) == ("86400", "false", 1)


async def test_an_upstream_that_forbids_to_repeat_is_obeyed() -> None:
    async with (
        ScriptedUpstream(refusal(503, (b"x-should-retry", b"false"))) as upstream,
        serving(settings_for(upstream.url, retry=FAST)) as gateway,
    ):
        answer = await stream(gateway.port)
        assert (answer.status, len(upstream.attempts), answer.header("x-should-retry")) == (503, 1, "false")


@pytest.mark.parametrize("value", ["²", "-5", "nan", "inf", "1e9", "", "1,1", "0", "Thu, 01 Jan 1970 00:00:00 GMT"])
async def test_an_odd_wait_is_no_wait(value: str) -> None:
    limited = refusal(429, (b"retry-after", value.encode("latin-1")))
    async with ScriptedUpstream(limited, good()) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        assert (await stream(gateway.port)).status == 200


async def test_a_rate_limit_in_the_first_event_says_when() -> None:
    first_event = b'data: {"error":{"message":"Rate limit reached. Please try again in 250ms.","type":"rate_limit_exceeded"}}\n\n'
    async with (
        ScriptedUpstream(Play((Write(first_event),)), good()) as upstream,
        serving(settings_for(upstream.url, retry=FAST)) as gateway,
    ):
        assert (await stream(gateway.port)).status == 200
        first, second = upstream.attempts
        assert second.at - first.wrote_at[-1] >= 0.245


async def test_a_rate_limit_in_the_first_event_that_lasts_is_a_429_with_its_time() -> None:
    first_event = b'data: {"error":{"message":"Please try again in 41.5s.","type":"rate_limit_exceeded"}}\n\n'
    async with ScriptedUpstream(Play((Write(first_event),))) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        answer = await stream(gateway.port)
        assert (answer.status, answer.header("retry-after"), len(upstream.attempts)) == (429, "42", 1)


async def test_heartbeats_go_on_while_it_waits_and_the_stream_is_one() -> None:
    plays = (refusal(429, (b"retry-after-ms", b"400")), Play((PREAMBLE,), end="reset"), good())
    settings = settings_for("http://x", retry=FAST, heartbeat={"every": 0.1})
    async with ScriptedUpstream(*plays) as upstream:
        settings = replace(settings, upstreams=(replace(settings.upstreams[0], base_url=upstream.url),))
        async with serving(settings) as gateway:
            answer = await stream(gateway.port)
    assert (answer.status, text_of(answer)) == (200, "Hello there")
    assert len(answer.comments) >= 2
    assert sum(b'"role"' in frame.data for frame in answer.frames) == 1
    assert [event.data for event in answer.events].count("[DONE]") == 1


async def test_after_a_heartbeat_the_last_failure_is_told_in_the_stream() -> None:
    plays = (refusal(429, (b"retry-after-ms", b"300")), refusal(503, said="still no"))
    settings = settings_for("http://x", retry={**FAST, "attempts": 2}, heartbeat={"every": 0.1})
    async with ScriptedUpstream(*plays) as upstream:
        settings = replace(settings, upstreams=(replace(settings.upstreams[0], base_url=upstream.url),))
        async with serving(settings) as gateway:
            answer = await stream(gateway.port)
    assert answer.status == 200
    assert json.loads(answer.events[-1].data)["error"]["message"] == "still no"


async def test_after_content_nothing_is_repeated() -> None:
    begun = Play((PREAMBLE, HELLO), end="reset")
    async with ScriptedUpstream(begun, good()) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        answer = await stream(gateway.port)
        assert json.loads(answer.events[-1].data)["error"]["code"] == "upstream_reset"
        assert len(upstream.attempts) == 1
        assert gateway.metric("decluster_upstream_attempts_total", outcome="upstream_reset") == 1


async def test_a_client_that_leaves_while_it_waits_is_nobodys_failure() -> None:
    limited = refusal(429, (b"retry-after", b"9"))
    async with ScriptedUpstream(limited) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(body=chat_body(), headers=FIELDS)
            await upstream.asked()
            await upstream.until(lambda: upstream.attempts[0].finished)
            await asyncio.sleep(0.05)
        await gateway.idle()
        assert len(upstream.attempts) == 1
        assert gateway.metric("decluster_stream_end_total", reason="client_gone") == 1
        assert not gateway.gateway.exchanges


# Plain requests


async def test_a_plain_answer_is_tried_again_too() -> None:
    whole = Play((Write(b'{"id":"x"}'),), 200, JSON, framing="length")
    async with ScriptedUpstream(refusal(503), whole) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        answer = await stream(gateway.port, stream=False)
        assert (answer.status, answer.body, len(upstream.attempts)) == (200, b'{"id":"x"}', 2)


async def test_a_stream_nobody_asked_for_that_is_cut_is_tried_again() -> None:
    cut = Play((PREAMBLE, HELLO), end="reset")
    async with ScriptedUpstream(cut, good()) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        answer = await stream(gateway.port, stream=False)
        assert answer.json()["choices"][0]["message"]["content"] == "Hello there"


async def test_a_get_is_tried_again() -> None:
    whole = Play((Write(b"{}"),), 200, JSON, framing="length")
    async with ScriptedUpstream(Play(before_status=True), refusal(502), whole) as upstream:
        async with serving(settings_for(upstream.url, retry=FAST)) as gateway, await Client.to(gateway.port) as client:
            client.ask("GET", "/v1/files/f")
            assert (await client.ended()).status == 200
            assert len(upstream.attempts) == 3


@pytest.mark.parametrize("trouble", [refusal(503), Play(before_status=True)], ids=["503", "closed"])
async def test_an_upload_that_was_sent_is_not_sent_again(trouble: Play) -> None:
    async with ScriptedUpstream(trouble) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask("POST", "/v1/files", b"x" * 1000)
            assert (await client.ended()).status in (502, 503)
            assert len(upstream.attempts) == 1


async def test_a_post_without_a_body_is_not_done_twice() -> None:
    async with ScriptedUpstream(refusal(503)) as upstream, serving(settings_for(upstream.url, retry=FAST)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask("POST", "/v1/batches/b/cancel", b"")
            assert (await client.ended()).status == 503
            assert len(upstream.attempts) == 1


# Several upstreams


def two(first: str, second: str, *routes: Route, **changes: Any) -> Settings:
    settings = settings_for(first, **{"retry": {**FAST, "attempts": 1}, **changes})
    return replace(
        settings, upstreams=(settings.upstreams[0], replace(settings.upstreams[0], name="second", base_url=second)), routes=routes
    )


async def test_another_upstream_answers_where_the_first_cannot() -> None:
    async with nobody() as first, ScriptedUpstream(good()) as second, serving(two(first, second.url)) as gateway:
        answer = await stream(gateway.port)
        assert (answer.status, text_of(answer)) == (200, "Hello there")
        assert gateway.metric("decluster_fallbacks_total") == 1
        assert gateway.metric("decluster_upstream_attempts_total", upstream="scripted", outcome="upstream_unreachable") == 1
        assert gateway.metric("decluster_upstream_attempts_total", upstream="second", outcome="ok") == 1


async def test_a_broken_upstream_is_not_asked_until_it_has_rested() -> None:
    async with ScriptedUpstream(refusal(500)) as first, ScriptedUpstream(good()) as second:
        async with serving(two(first.url, second.url, breaker={"rest": 0.3})) as gateway:
            for _ in range(8):
                assert (await stream(gateway.port)).status == 200
            assert len(first.attempts) == 5
            assert gateway.metric("decluster_breaker_state", upstream="scripted") == 2
            first.plays = (good(),)
            await asyncio.sleep(0.35)
            assert (await stream(gateway.port)).status == 200
            assert len(first.attempts) == 6
            assert gateway.metric("decluster_breaker_state", upstream="scripted") == 0


async def test_where_all_are_broken_the_least_bad_is_asked_and_nobody_is_ready() -> None:
    async with ScriptedUpstream(refusal(500)) as first, ScriptedUpstream(refusal(500, said="second")) as second:
        async with serving(two(first.url, second.url)) as gateway:
            for _ in range(5):
                assert (await stream(gateway.port)).status == 500
            assert (await ready(gateway)).status == 503
            asked = len(first.attempts) + len(second.attempts)
            first.plays = second.plays = (good(),)
            assert (await stream(gateway.port)).status == 200
            assert len(first.attempts) + len(second.attempts) == asked + 1


async def ready(gateway: Running) -> Answer:
    async with await Client.to(gateway.port) as client:
        client.ask("GET", "/readyz")
        return await client.ended()


async def test_a_route_renames_sets_and_caps_for_each_target_and_leaves_the_rest() -> None:
    route = Route(
        ("m-*",),
        (RouteTarget("scripted", model="heavy", set=(("reasoning_effort", "low"), ("a.b", 2)), cap=(("max_tokens", 100),)),),
        (RouteTarget("second", model="light"),),
    )
    async with ScriptedUpstream(refusal(503)) as first, ScriptedUpstream(good()) as second:
        async with serving(two(first.url, second.url, route)) as gateway:
            answer = await stream(gateway.port, max_tokens=500, big=12345678901234567890, chunk_aggr=4)
            assert (answer.status, text_of(answer)) == (200, "Hello there")
    heavy, light = json.loads(first.attempts[0].body), json.loads(second.attempts[0].body)
    assert (heavy["model"], heavy["reasoning_effort"], heavy["a"], heavy["max_tokens"]) == ("heavy", "low", {"b": 2}, 100)
    assert (light["model"], light.get("reasoning_effort"), light["max_tokens"]) == ("light", None, 500)
    assert b"12345678901234567890" in first.attempts[0].body
    assert "chunk_aggr" not in heavy | light


async def test_keys_take_turns_and_a_limited_one_rests() -> None:
    plays = (refusal(429, (b"retry-after", b"5")), good(), good(), good())
    settings = settings_for("http://x", retry=FAST, upstream={"api_keys": ("k-1", "k-2", "k-3")})
    async with ScriptedUpstream(*plays) as upstream:
        settings = replace(settings, upstreams=(replace(settings.upstreams[0], base_url=upstream.url),))
        async with serving(settings) as gateway:
            for _ in range(3):
                assert (await stream(gateway.port)).status == 200
        keys = [attempt.named(b"authorization") for attempt in upstream.attempts]
    assert keys == [[b"Bearer k-1"], [b"Bearer k-2"], [b"Bearer k-3"], [b"Bearer k-2"]]


async def test_a_refused_key_is_logged_once_without_itself(caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_for("http://x", retry=FAST, upstream={"api_keys": ("k-bad-one", "k-2")})
    async with ScriptedUpstream(refusal(401), good()) as upstream:
        settings = replace(settings, upstreams=(replace(settings.upstreams[0], base_url=upstream.url),))
        async with serving(settings) as gateway:
            for _ in range(3):
                assert (await stream(gateway.port)).status == 200
    told = [record for record in caplog.records if "keys" in record.message]
    assert len(told) == 1
    assert (told[0].__dict__["upstream"], told[0].__dict__["key"]) == ("scripted", 1)
    assert "k-bad-one" not in caplog.text


async def test_silence_before_the_first_content_is_that_clocks_matter() -> None:
    slow = Play((Write(good().body, 0.4),))
    clocks = {"silence": 0.1, "first_content": 5.0}
    async with ScriptedUpstream(slow) as upstream, serving(settings_for(upstream.url, clocks=clocks)) as gateway:
        assert text_of(await stream(gateway.port)) == "Hello there"


async def test_no_content_in_time_is_another_upstreams_turn() -> None:
    hanging = Play((PREAMBLE,), end="hang")
    async with ScriptedUpstream(hanging) as first, ScriptedUpstream(good()) as second:
        async with serving(two(first.url, second.url, clocks={"first_content": 0.2})) as gateway:
            assert text_of(await stream(gateway.port)) == "Hello there"
            assert gateway.metric("decluster_upstream_attempts_total", outcome="upstream_first_content_timeout") == 1
            await first.left(first.attempts[0])


async def test_a_route_renames_the_model_of_other_requests_too() -> None:
    route = Route(("small-*",), (RouteTarget("second", model="vectors-1"),))
    whole = Play((Write(b"{}"),), 200, JSON, framing="length")
    async with ScriptedUpstream(whole) as first, ScriptedUpstream(whole) as second, serving(two(first.url, second.url, route)) as gateway:
        for model in ("small-x", "other"):
            async with await Client.to(gateway.port) as client:
                client.ask("POST", "/v1/embeddings", b'{"model": "%b", "input": [1.0]}' % model.encode(), FIELDS)
                assert (await client.ended()).status == 200
        assert json.loads(second.attempts[0].body) == {"model": "vectors-1", "input": [1.0]}
        assert bytes(first.attempts[0].body) == b'{"model": "other", "input": [1.0]}'


async def test_a_route_says_how_its_reasoning_and_pacing_are_under_what_the_request_says() -> None:
    route = Route(("m-*",), (RouteTarget("scripted"),), reasoning_format="hidden", pacing="raw")
    play = Play((Write(event(ROLE)), Write(event(chunk(reasoning_content="hm"))), *(Write(event(data)) for data in words("Hello"))))
    async with ScriptedUpstream(play) as upstream, serving(two(upstream.url, upstream.url, route)) as gateway:
        assert b"reasoning_content" not in (await stream(gateway.port)).body
        assert b"reasoning_content" in (await stream(gateway.port, reasoning_format="as_is")).body


async def test_a_date_is_waited_for() -> None:
    soon = formatdate(time.time() + 2, usegmt=True).encode()
    async with ScriptedUpstream(refusal(503, (b"retry-after", soon)), good()) as upstream:
        async with serving(settings_for(upstream.url, retry=FAST)) as gateway:
            assert (await stream(gateway.port)).status == 200
            first, second = upstream.attempts
            assert second.at - first.wrote_at[-1] >= 0.9  # the date says whole seconds


async def test_a_wait_is_not_counted_as_an_attempt_that_says_nothing() -> None:
    plays = (refusal(429, (b"retry-after-ms", b"500")), good())
    settings = settings_for("http://x", retry=FAST, clocks={"first_content": 0.2})
    async with ScriptedUpstream(*plays) as upstream:
        settings = replace(settings, upstreams=(replace(settings.upstreams[0], base_url=upstream.url),))
        async with serving(settings) as gateway:
            assert text_of(await stream(gateway.port)) == "Hello there"


async def test_each_attempt_has_its_own_time_for_its_head_and_its_content() -> None:
    late = replace(good(), header_delay_s=0.2)
    settings = settings_for("http://x", retry=FAST, clocks={"headers": 0.3, "first_content": 0.3})
    async with ScriptedUpstream(Play(header_delay_s=None), late) as upstream:
        settings = replace(settings, upstreams=(replace(settings.upstreams[0], base_url=upstream.url),))
        async with serving(settings) as gateway:
            assert text_of(await stream(gateway.port)) == "Hello there"
