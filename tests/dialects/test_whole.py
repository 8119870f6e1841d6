"""Answers in the other form than asked for: one converted into the other, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.chunks import DONE, ROLE, STOP, USAGE, call, chunk, collect, compact, words

from dialects.reading import event, said
from gateway.dialects import Chat, Completions, Messages, Responses
from gateway.errors import Failure
from gateway.wire.sse import Decoder

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


PART = {"type": "text", "text": "a"}


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


@pytest.mark.parametrize("index", [7, 5000, 10**9])
def test_calls_may_have_any_index(index: int) -> None:
    made = gathered(ROLE, chunk(tool_calls=[call(index, "a", "get", "{}")]), chunk(finish="tool_calls"), DONE)
    assert [each["id"] for each in made["choices"][0]["message"]["tool_calls"]] == ["a"]


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    parts = [{key: value for key, value in call(None, name, "f", name).items() if key != "index"} for name in ("a", "b")]
    made = gathered(ROLE, *(chunk(tool_calls=[part]) for part in parts), chunk(finish="tool_calls"), DONE)
    assert [(each["id"], each["function"]["arguments"]) for each in made["choices"][0]["message"]["tool_calls"]] == [("a", "a"), ("b", "b")]


def test_what_else_a_call_has_is_kept() -> None:
    part = {**call(0, "a", "f", "{}"), "extra_content": {"google": {"thought_signature": "s"}}}
    made = gathered(ROLE, chunk(tool_calls=[part]), chunk(finish="tool_calls"), DONE)
    assert made["choices"][0]["message"]["tool_calls"][0]["extra_content"] == part["extra_content"]


@pytest.mark.parametrize(
    ("member", "deltas", "whole"),
    [
        (
            "function_call",
            [{"name": "f", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ":1}"}],
            {"name": "f", "arguments": '{"a":1}'},
        ),
        (
            "audio",
            [{"id": "a", "transcript": "he"}, {"transcript": "llo"}, {"data": "AA"}, {"data": "BB", "expires_at": 7}],
            {"id": "a", "transcript": "hello", "data": "AABB", "expires_at": 7},
        ),
        ("content", [[PART], [PART]], [PART, PART]),
        ("content", ["a", [{"type": "image"}], "a"], [PART, {"type": "image"}, PART]),
        ("annotations", [[{"n": 1}], [{"n": 1}], [{"n": 2}]], [{"n": 1}, {"n": 1}, {"n": 2}]),
        ("refusal", ["no", ", sorry"], "no, sorry"),
    ],
)
def test_what_comes_in_pieces_is_put_together(member: str, deltas: list[Any], whole: Any) -> None:
    parts = [compact({"choices": [{"index": 0, "delta": {member: delta}, "finish_reason": None}]}) for delta in deltas]
    made = gathered(ROLE, *parts, STOP, DONE)
    assert made["choices"][0]["message"][member] == whole


@pytest.mark.parametrize(
    ("lists", "whole"),
    [([["u"], ["v"]], ["u", "v"]), ([["u"], ["u"]], ["u"]), ([["u"], ["u", "v"], ["u", "v"]], ["u", "v"])],
)
def test_lists_beside_the_choices_go_on_unless_they_repeat(lists: list[list[str]], whole: list[str]) -> None:
    made = gathered(ROLE, *(chunk("a", top={"citations": each}) for each in lists), STOP, DONE)
    assert made["citations"] == whole


def test_numbers_keep_their_digits() -> None:
    entry = '{"token":"a","logprob":-0.1234567890123456789012}'
    data = chunk("a", choice={"logprobs": {"content": []}}).replace("[]", f"[{entry}]")
    made = Chat.gathered(
        [
            event(part)
            for part in (
                ROLE,
                data,
                data,
                chunk(top={"choices": [], "usage": USAGE, "cost": 0}).replace('"cost":0', '"cost":1.50'),
                STOP,
                DONE,
            )
        ]
    )
    assert isinstance(made, bytes)
    assert f'"content":[{entry},{entry}]'.encode() in made
    assert b'"cost":1.50' in made


@pytest.mark.parametrize(
    "odd",
    [
        '{"index":0,"delta":{"audio":7}}',
        '{"index":"0","delta":{"tool_calls":[{"index":{},"function":7}]}}',
        '{"index":-1,"delta":{"content":{}}}',
    ],
)
def test_odd_choices_are_an_answer_or_a_failure_that_names_the_upstream(odd: str) -> None:
    made = Chat.gathered([event(data) for data in (ROLE, f'{{"choices":[{odd}]}}', STOP, DONE)])
    assert isinstance(made, bytes) or made.code == "upstream_bad_event"


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
    made = Chat.gathered([event(data) for data in (ROLE, chunk("a"), chunk("b")[:-4], STOP, DONE)])
    assert isinstance(made, Failure)
    assert made.code == "upstream_bad_event"


def test_an_error_in_the_stream_is_that_error() -> None:
    made = Chat.gathered([event(ROLE), event('{"error":{"message":"m","type":"overloaded_error"}}')])
    assert isinstance(made, Failure)
    assert (made.message, made.http_status) == ("m", 503)


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
