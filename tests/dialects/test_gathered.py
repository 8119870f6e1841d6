"""Streams where one answer was wanted: added up to that answer."""

from __future__ import annotations

from typing import Any

import pytest

from dialects.forms import COMPLETION, PART, gathered
from dialects.reading import event
from gateway.dialects import Chat
from gateway.errors import Failure
from support.chunks import DONE, ROLE, STOP, USAGE, call, chunk, compact


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
