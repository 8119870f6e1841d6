"""What a client gets where the upstream's answer has another form than was asked for, or an error comes too late for a status."""

from __future__ import annotations

import json as jsonlib
from typing import Any

import pytest

from support import plays
from support.chunks import DONE, ROLE, STOP, chunk, compact, words
from support.client import Client, ask, chat_body
from support.gateway import serving, settings_for
from support.plays import JSON, SSE, Play, Write, sse
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

FIELDS = [("content-type", "application/json")]
PATHS = ["/v1/chat/completions", "/v1/messages", "/v1/responses"]
KEPT = ((b"x-request-id", b"up-1"), (b"retry-after", b"7"), (b"x-ratelimit-remaining-requests", b"0"), (b"server", b"x"))
ERROR = '{"error":{"message":"slow","type":"rate_limit_error","code":429}}'


def message_of(told: Any) -> str:
    return str(told["error"]["message"] if isinstance(told.get("error"), dict) else told["message"])


# A refusal after the 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"object":"error","message":"no such model","type":"NotFoundError","param":null,"code":404}', "no such model"),
        (b'{"error":"slow down"}', "slow down"),
        (b'{"error": {"message": "cut', "The upstream answered 503."),
        (b"<html>secret</html>", "The upstream answered 503."),
        (b"", "The upstream answered 503."),
    ],
)
async def test_a_refusal_after_a_heartbeat_is_an_error_of_the_dialect(path: str, body: bytes, message: str) -> None:
    play = Play((Write(body),), 503, JSON, header_delay_s=0.3)
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, heartbeat={"every": 0.05})) as gateway:
        answer = await ask(gateway.port, "POST", path, chat_body(), FIELDS)
        assert (answer.status, answer.whole) == (200, True)
        assert message_of(jsonlib.loads(answer.events[-1].data)) == message
        assert b"secret" not in answer.body


# An error where a status can still tell it


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("streams", [True, False])
async def test_an_error_in_a_200_keeps_the_fields_that_say_when_to_ask_again(path: str, streams: bool) -> None:
    play = Play((Write(sse([ERROR])),), 200, (*SSE, *KEPT))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", path, chat_body(stream=streams), FIELDS)
        assert (answer.status, message_of(answer.json())) == (429, "slow")
        for name, value in KEPT[:3]:
            assert answer.header(name.decode()) == value.decode()
        assert answer.header("server") is None


@pytest.mark.parametrize("path", PATHS)
async def test_an_error_in_json_where_a_stream_was_asked_for_is_told_with_its_words(path: str) -> None:
    async with ScriptedUpstream(plays.json(ERROR.encode(), 200, *KEPT)) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", path, chat_body(), FIELDS)
        assert (answer.status, message_of(answer.json())) == (429, "slow")
        assert (answer.header("retry-after"), answer.header("x-request-id")) == ("7", "up-1")


# A stream where one answer was asked for


@pytest.mark.parametrize(
    ("path", "datas"),
    [
        ("/v1/chat/completions", (ROLE, '{"choices":[{"index":0,"delta":{"content":"a"')),
        ("/v1/messages", ('{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}',)),
        ("/v1/messages", ('{"type":"message_start"}',)),
        ("/v1/responses", ('{"type":"response.completed"}',)),
    ],
)
async def test_a_stream_that_does_not_add_up_is_a_502_that_names_the_upstream(path: str, datas: tuple[str, ...]) -> None:
    async with ScriptedUpstream(plays.events(*datas)) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", path, chat_body(stream=False), FIELDS)
        assert (answer.status, answer.header("content-type"), answer.json()["error"]["code"]) == (
            502,
            "application/json",
            "upstream_bad_event",
        )


async def test_halves_of_a_character_and_far_indices_are_a_proper_answer() -> None:
    call = {"index": 5000, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    halves = (chunk("a\ud83d").encode("ascii", "backslashreplace"), chunk("\ude80b").encode("ascii", "backslashreplace"))
    play = plays.events(ROLE, *halves, chunk(tool_calls=[call]), STOP, DONE)
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", PATHS[0], chat_body(stream=False), FIELDS)
        message = answer.json()["choices"][0]["message"]
        assert (answer.status, message["content"], [each["id"] for each in message["tool_calls"]]) == (200, "a🚀b", ["c"])


@pytest.mark.parametrize("body", [compact({"choices": [{"index": 0, "message": None}]}), '{"choices":[null]}'])
async def test_json_that_is_no_completion_is_a_502(body: str) -> None:
    async with ScriptedUpstream(plays.json(body.encode())) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", PATHS[0], chat_body(), FIELDS)
        assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_not_a_stream")


# The end of the gateway


@pytest.mark.parametrize("path", PATHS)
async def test_a_request_that_outlasts_the_grace_is_told_so(path: str) -> None:
    async with ScriptedUpstream(Play(header_delay_s=None)) as upstream, serving(settings_for(upstream.url)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask(target=path, body=chat_body(stream=False), headers=FIELDS)
            await upstream.asked()
            gateway.gateway.draining = True
            for task in tuple(gateway.server.server_state.tasks):  # what uvicorn does when its patience ends
                task.cancel()
            answer = await client.ended()
            assert (answer.status, answer.header("content-type")) == (503, "application/json")
            assert answer.json()["error"]["code"] == "shutting_down"


async def test_a_whole_stream_where_one_answer_was_asked_for_is_that_answer() -> None:
    async with ScriptedUpstream(plays.events(*words("Hi"))) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", PATHS[0], chat_body(stream=False), FIELDS)
        assert (answer.status, answer.json()["choices"][0]["message"]["content"]) == (200, "Hi")
