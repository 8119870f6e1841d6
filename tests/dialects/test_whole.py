"""Answers in the other form than asked for: one converted into the other, and back."""

from __future__ import annotations

import json

import pytest

from dialects.forms import COMPLETION, gathered, streamed
from dialects.reading import event, said
from gateway.dialects import Chat, Completions, Messages, Responses
from gateway.errors import Failure
from gateway.wire.sse import Decoder
from support.chunks import USAGE, call, collect, compact, words

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


# The same for Messages and Responses

START = '{"type":"message_start","message":{"id":"m","type":"message","content":[],"usage":{"input_tokens":1}}}'
TOOL = '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}'
STOPPED = '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}'


def argument(text: str) -> str:
    return compact({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}})


def test_a_calls_input_keeps_its_digits() -> None:
    made = Messages.gathered(
        [event(data) for data in (START, TOOL, argument('{"n":1.'), argument("50,"), argument('"m":12345678901234567890.5}'), STOPPED)]
    )
    assert isinstance(made, bytes)
    assert b'"input":{"n":1.50,"m":12345678901234567890.5}' in made
    assert json.loads(made)["usage"] == {"input_tokens": 1, "output_tokens": 2}


def test_an_input_that_was_cut_is_handed_on_as_it_came() -> None:
    made = Messages.gathered([event(data) for data in (START, TOOL, argument('{"n":'), STOPPED)])
    assert isinstance(made, bytes)
    assert json.loads(made)["content"][0]["input"] == {"INVALID_JSON": '{"n":'}


@pytest.mark.parametrize(
    "datas",
    [
        (TOOL, argument("{}"), STOPPED, argument("x")),
        (argument("{}"),),
        (START, argument("{}")),
        (START, "{"),
        (START, '{"type":"content_block_start"}'),
    ],
)
def test_events_of_messages_that_do_not_fit_are_a_failure_that_names_the_upstream(datas: tuple[str, ...]) -> None:
    made = Messages.gathered([event(data) for data in datas])
    assert isinstance(made, bytes) or made.code == "upstream_bad_event"


@pytest.mark.parametrize(
    ("dialect", "whole"),
    [
        (Messages, '{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"}'),
        (Responses, '{"object":"response","status":"completed","output":[]}'),
    ],
)
def test_a_whole_answer_in_an_event_is_that_answer(dialect: type[Messages | Responses], whole: str) -> None:
    assert dialect.gathered([event(whole)]) == whole.encode()


def test_a_completed_event_without_its_response_is_a_failure() -> None:
    made = Responses.gathered([event('{"type":"response.completed","sequence_number":1}')])
    assert isinstance(made, Failure)
    assert made.code == "upstream_bad_event"


def test_there_and_back_is_the_same() -> None:
    assert gathered(*streamed(COMPLETION))["choices"][0]["message"]["content"] == COMPLETION["choices"][0]["message"]["content"]
    again = collect(streamed(gathered(*words("Hello ", "world"))))
    assert (again.first.content, again.first.finish) == ("Hello world", "stop")


def test_a_converted_answer_goes_through_the_dialect_like_any_other() -> None:
    dialect = Chat()
    found = [piece for data in streamed(COMPLETION) for piece in dialect.read(event(data))]
    assert collect(said(found)).first.content == "Hi 😀"
    assert (dialect.proven, dialect.ended) == (True, True)
