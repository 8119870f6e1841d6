"""Usage as each API and its imitators write it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects import Chat, Completions, Messages, Responses
from gateway.dialects.base import Dialect, Usage
from gateway.dialects.usage import of_answer, of_choices, of_messages, of_responses
from gateway.wire.jsontext import dump
from gateway.wire.sse import Decoder
from support.chunks import DONE, STOP, chunk, compact
from support.plays import sse


def usage_of(dialect: Dialect, *datas: str) -> Usage | None:
    for event in Decoder(2**20).feed(sse(datas)):
        dialect.read(event)
    return dialect.usage


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}, Usage(5, 7)),
        (
            {"prompt_tokens": 50, "completion_tokens": 70, "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0}},
            Usage(50, 70, cache_read_tokens=40),
        ),
        ({"prompt_tokens": 50, "completion_tokens": 7, "prompt_cache_hit_tokens": 30, "prompt_cache_miss_tokens": 20}, Usage(50, 7, 30)),
        (
            {"prompt_tokens": 5, "completion_tokens": 70, "total_tokens": 75, "completion_tokens_details": {"reasoning_tokens": 60}},
            Usage(5, 70, reasoning_tokens=60),
        ),
        (  # some count reasoning beside the answer
            {"prompt_tokens": 5, "completion_tokens": 10, "total_tokens": 75, "completion_tokens_details": {"reasoning_tokens": 60}},
            Usage(5, 10, reasoning_tokens=60, unlisted_tokens=60),
        ),
        (
            {"prompt_tokens": None, "completion_tokens": "7", "prompt_tokens_details": None, "completion_tokens_details": []},
            Usage(None, None),
        ),
        ({"prompt_tokens": -5, "completion_tokens": True}, Usage(None, None)),
        (None, None),
        ([], None),
    ],
)
def test_of_chat_and_completions(said: Any, read: Usage | None) -> None:
    assert of_choices(said) == read


def test_of_responses() -> None:
    said = {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 20},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 39,
    }
    assert of_responses(said) == Usage(30, 9, cache_read_tokens=20, reasoning_tokens=4)


def test_of_messages_the_cached_tokens_belong_to_the_prompt() -> None:
    said = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 3000,
        "cache_creation": {"ephemeral_5m_input_tokens": 150, "ephemeral_1h_input_tokens": 50},
        "output_tokens": 1,
    }
    assert of_messages(said) == Usage(3210, 1, 3000, 200, 50)
    assert of_messages(said, {"output_tokens": 80}) == Usage(3210, 80, 3000, 200, 50)
    assert of_messages(said, {"input_tokens": 0, "output_tokens": 80}) == Usage(3210, 80, 3000, 200, 50)


def test_a_messages_stream_tells_its_prompt_first_and_the_answer_last() -> None:
    dialect = Messages()
    start = {"type": "message_start", "message": {"model": "m", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}
    assert usage_of(dialect, compact(start)) is None
    assert dialect.begun_usage == Usage(9, 1)
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 50}}
    assert usage_of(dialect, compact(delta)) == Usage(9, 50)


def test_a_usage_of_null_does_not_undo_one_that_was_told() -> None:
    told = chunk(top={"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
    assert usage_of(Chat(), chunk("a"), STOP, told, chunk(top={"choices": [], "usage": None}), DONE) == Usage(1, 2)


@pytest.mark.parametrize("dialect", [Chat, Completions])
def test_of_a_whole_completion(dialect: type[Dialect]) -> None:
    body = dump({"choices": [{"message": {"content": "a" * 1000}}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    assert of_answer(dialect.name, body) == Usage(3, 4)


def test_of_other_whole_answers() -> None:
    assert of_answer(Responses.name, dump({"output": [], "usage": {"input_tokens": 3, "output_tokens": 4}})) == Usage(3, 4)
    body = dump({"content": [], "usage": {"input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 4}})
    assert of_answer(Messages.name, body) == Usage(5, 4, 2)


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"usage": 5}', b'{"usage": null}', b'{"a":', b"{}"])
def test_what_tells_no_usage_is_no_fault(body: bytes) -> None:
    assert of_answer("chat", body) is None
    assert of_answer("messages", body) is None


def test_an_answer_with_nan_in_it_tells_its_usage_all_the_same() -> None:
    assert of_answer("chat", b'{"logprob": NaN, "usage": {"prompt_tokens": 1, "completion_tokens": 2}}') == Usage(1, 2)
