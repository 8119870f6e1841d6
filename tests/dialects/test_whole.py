"""Answers in the other form than asked for: one converted into the other, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dialects.reading import event, said
from gateway.dialects import Chat, Completions
from gateway.errors import Failure
from gateway.wire.sse import Decoder
from support.chunks import DONE, ROLE, STOP, USAGE, call, chunk, collect, compact, words

COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "m-test",
    "system_fingerprint": "fp",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi 😀", "refusal": None}, "logprobs": None, "finish_reason": "stop"}
    ],
    "usage": USAGE,
}


def streamed(value: Any) -> list[str]:
    made = Chat.as_stream(b"application/json", value if isinstance(value, bytes) else compact(value).encode())
    assert isinstance(made, bytes)
    return [each.data.decode() for each in Decoder(2**20).feed(made)]


def gathered(*datas: str | bytes) -> Any:
    made = Chat.gathered([event(data) for data in datas])
    assert isinstance(made, bytes), made
    return json.loads(made)


# A completion where a stream was wanted


def test_a_completion_becomes_the_stream_that_it_would_have_been() -> None:
    datas = streamed(COMPLETION)
    got = collect(datas)
    assert (got.first.content, got.first.finish, got.first.role_frames, got.done) == ("Hi 😀", "stop", 1, 1)
    assert got.usages == [USAGE]
    assert got.order == [(0, "content"), (0, "finish")]
    for data in datas[:-1]:
        top = json.loads(data)
        assert top["object"] == "chat.completion.chunk"
        assert {key: top[key] for key in ("id", "created", "model", "system_fingerprint")} == {
            key: COMPLETION[key] for key in ("id", "created", "model", "system_fingerprint")
        }


def test_calls_of_a_completion_are_numbered() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call(None, "a", "get", "{}"), call(None, "b", "put", "[]")]}
    got = collect(streamed({**COMPLETION, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))
    assert {index: (made.id, made.name, made.arguments) for index, made in got.first.calls.items()} == {
        0: ("a", "get", "{}"),
        1: ("b", "put", "[]"),
    }
    assert got.first.finish == "tool_calls"


def test_several_choices_each_have_their_text_and_end() -> None:
    choices = [{"index": index, "message": {"role": "assistant", "content": str(index)}, "finish_reason": "stop"} for index in range(3)]
    got = collect(streamed({**COMPLETION, "choices": choices}))
    assert {index: (choice.content, choice.finish) for index, choice in got.choices.items()} == {
        index: (str(index), "stop") for index in range(3)
    }


def test_numbers_and_unknown_fields_keep_their_bytes() -> None:
    body = b'{"id":"x","object":"chat.completion","n":1.50,"choices":[{"index":0,"z":1e5,"message":{"role":"assistant","content":"a","r":[0.10]},"finish_reason":"stop"}]}'
    datas = streamed(body)
    assert '"n":1.50' in datas[0]
    assert '"z":1e5' in datas[0]
    assert '"r":[0.10]' in datas[0]


@pytest.mark.parametrize("tail", [b"", b"\n\ndata: [DONE]\n\n", b"data: [DONE]", b"  \n"])
def test_what_some_append_to_the_json_is_taken_off(tail: bytes) -> None:
    assert collect(streamed(compact(COMPLETION).encode() + tail)).first.content == "Hi 😀"


def test_a_legacy_completion_becomes_a_stream_too() -> None:
    body = compact({"id": "cmpl-1", "object": "text_completion", "choices": [{"index": 0, "text": "abc", "finish_reason": "length"}]})
    made = Completions.as_stream(b"application/json", body.encode())
    assert isinstance(made, bytes)
    got = collect(each.data.decode() for each in Decoder(2**20).feed(made))
    assert (got.first.content, got.first.finish, got.done) == ("abc", "length", 1)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>", b"[]", b"{}", b"null", b'{"choices":null}', b'{"choices":[null]}', b'{"choices":[]}', b'{"choices":[{"message":null}]}',
        b'{"choices":[{"message":7}]}', b'{"choices":[1]}', b'{"choices":[{"message":{"tool_calls":[null]}}]}', b'{"choices":[', b'{"a":1}\n{"b":2}', b"\xff",
    ],
)  # fmt: skip
def test_what_is_no_completion_is_a_failure_that_names_what_came(body: bytes) -> None:
    made = Chat.as_stream(b"application/x-odd", body)
    assert isinstance(made, Failure)
    assert made.code == "upstream_not_a_stream"
    assert "application/x-odd" in made.message


def test_an_error_in_place_of_a_completion_is_that_error() -> None:
    made = Chat.as_stream(b"application/json", b'{"error":{"message":"quota","code":"insufficient_quota"}}')
    assert isinstance(made, Failure)
    assert (made.code, made.http_status) == ("upstream_error", 429)


# A stream where a completion was wanted


def test_a_stream_becomes_the_completion_that_it_adds_up_to() -> None:
    made = gathered(
        ROLE, chunk(reasoning_content="thinking"), chunk("Hi "), chunk("😀"), STOP, chunk(top={"choices": [], "usage": USAGE}), DONE
    )
    assert made["object"] == "chat.completion"
    assert made["usage"] == USAGE
    assert made["choices"] == [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi 😀", "reasoning_content": "thinking"}}
    ]


def test_calls_are_added_up_and_lose_their_index() -> None:
    parts = [call(0, "a", "get", ""), call(0, arguments='{"n":'), call(1, "b", "put", "[]"), call(0, arguments="1.50}")]
    made = gathered(ROLE, *(chunk(tool_calls=[part]) for part in parts), chunk(finish="tool_calls"), DONE)
    assert made["choices"][0]["message"]["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "get", "arguments": '{"n":1.50}'}},
        {"id": "b", "type": "function", "function": {"name": "put", "arguments": "[]"}},
    ]


def test_log_probabilities_are_strung_together() -> None:
    entries = [{"token": text, "logprob": -1.5} for text in ("a", "b", "c")]
    made = gathered(ROLE, *(chunk(e["token"], choice={"logprobs": {"content": [e], "refusal": None}}) for e in entries), STOP, DONE)
    assert made["choices"][0]["logprobs"]["content"] == entries


def test_choices_are_told_apart() -> None:
    made = gathered(chunk("a", index=1), chunk("b"), chunk("c", index=1), STOP, chunk(index=1, finish="length"), DONE)
    assert [(each["index"], each["message"]["content"], each["finish_reason"]) for each in made["choices"]] == [
        (0, "b", "stop"),
        (1, "ac", "length"),
    ]


def test_legacy_texts_are_added_up() -> None:
    datas = [compact({"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": None}]}) for text in "abc"]
    made = gathered(*datas, compact({"object": "text_completion", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}))
    assert made == {"object": "text_completion", "choices": [{"index": 0, "finish_reason": "stop", "text": "abc"}]}


def test_halves_of_a_character_in_two_deltas_are_one() -> None:
    made = gathered(
        ROLE, chunk("a\ud83d").encode("ascii", "backslashreplace"), chunk("\ude80b").encode("ascii", "backslashreplace"), STOP, DONE
    )
    assert made["choices"][0]["message"]["content"] == "a🚀b"


def test_half_a_character_alone_is_no_crash() -> None:
    made = gathered(ROLE, chunk("a\ud83d").encode("ascii", "backslashreplace"), STOP, DONE)
    assert made["choices"][0]["message"]["content"] == "a\ud83d"


def test_a_whole_completion_in_an_event_is_that_completion() -> None:
    assert gathered(compact(COMPLETION), DONE) == COMPLETION


@pytest.mark.parametrize(
    "odd", ["null", "[]", "{}", '{"choices":null}', '{"choices":{}}', '{"choices":[null]}', "<p>", '{"choices":[{"delta":null}]}']
)
def test_odd_events_between_do_no_harm(odd: str) -> None:
    made = gathered(ROLE, chunk("a"), odd, chunk("b"), STOP, DONE)
    assert made["choices"][0]["message"]["content"] == "ab"
    assert made["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("datas", [[], [DONE], [ROLE, chunk("a")], [ROLE, chunk("a"), chunk("b", index=1), STOP]])
def test_a_stream_that_was_cut_is_a_failure(datas: list[str]) -> None:
    made = Chat.gathered([event(data) for data in datas])
    assert isinstance(made, Failure)
    assert made.code == "upstream_incomplete"


def test_a_stream_that_lost_an_event_is_a_failure() -> None:
    assert isinstance(Chat.gathered([event(data) for data in (ROLE, chunk("a"), chunk("b")[:-4], STOP, DONE)]), Failure)


def test_an_error_in_the_stream_is_that_error() -> None:
    made = Chat.gathered([event(ROLE), event('{"error":{"message":"m","type":"overloaded_error"}}')])
    assert isinstance(made, Failure)
    assert (made.message, made.http_status) == ("m", 503)


def test_there_and_back_is_the_same() -> None:
    assert gathered(*streamed(COMPLETION))["choices"][0]["message"]["content"] == COMPLETION["choices"][0]["message"]["content"]
    again = collect(streamed(gathered(*words("Hello ", "world"))))
    assert (again.first.content, again.first.finish) == ("Hello world", "stop")


def test_a_converted_answer_goes_through_the_dialect_like_any_other() -> None:
    dialect = Chat()
    found = [piece for data in streamed(COMPLETION) for piece in dialect.read(event(data))]
    assert collect(said(found)).first.content == "Hi 😀"
    assert (dialect.proven, dialect.ended) == (True, True)
