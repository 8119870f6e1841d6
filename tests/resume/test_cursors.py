"""Cursors: UTF-16 units of content, in each dialect's events; what is before a place and what is after it make the whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.cursors import content_of, index_at, rest_of, units
from gateway.wire.sse import Event
from support.chunks import chunk, compact

TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from("😀👩‍👩‍👧‍👦🇩🇪é\ud83d"), max_size=12)


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def made(dialect: str, text: str) -> bytes:
    shapes: dict[str, Any] = {
        "chat": {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text, "obfuscation": "xx"}, "finish_reason": None}]},
        "completions": {"choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": None}]},
        "responses": {"type": "response.output_text.delta", "sequence_number": 4, "item_id": "m", "delta": text, "logprobs": []},
        "messages": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
    }
    return compact({"id": "x", "n": 1.50, **shapes[dialect]}).encode()


DIALECTS = pytest.mark.parametrize("dialect", ["chat", "completions", "responses", "messages"])


@given(TEXT)
def test_units_are_what_javascript_counts(text: str) -> None:
    assert units(text) == len(utf16(text)) // 2


@given(TEXT, st.integers(0, 30))
def test_an_index_never_parts_a_pair_and_never_loses_text(text: str, count: int) -> None:
    index = index_at(text, count)
    assert units(text[:index]) <= count
    if index < len(text):
        assert units(text[: index + 1]) > count


@DIALECTS
@given(text=TEXT.filter(bool), data=st.data())
def test_the_rest_of_an_event_is_its_text_from_there_on(dialect: str, text: str, data: st.DataObject) -> None:
    event = Event(None, made(dialect, text), b"")
    assert content_of(dialect, event.data) == text
    start = data.draw(st.integers(0, len(text)))
    rest = rest_of(dialect, event, units(text[:start]))
    body = rest.removeprefix(b"data: ").removesuffix(b"\n\n")
    assert content_of(dialect, body) == text[start:]
    before, after = json.loads(event.data), json.loads(body)
    assert before.keys() == after.keys()


@DIALECTS
def test_a_place_inside_a_pair_counts_as_before_it(dialect: str) -> None:
    event = Event(None, made(dialect, "a😀b"), b"")
    assert content_of(dialect, rest_of(dialect, event, 2)[6:]) == "😀b"
    assert content_of(dialect, rest_of(dialect, event, 3)[6:]) == "b"


def test_what_came_before_the_content_is_not_said_again_and_what_comes_with_its_end_is() -> None:
    event = Event(None, chunk("abcd", role="assistant", reasoning_content="hm", tool_calls=[{"index": 0}], finish="stop").encode(), b"")
    choice = json.loads(rest_of("chat", event, 2)[6:])["choices"][0]
    assert choice == {"index": 0, "delta": {"content": "cd", "tool_calls": [{"index": 0}]}, "finish_reason": "stop"}


def test_log_probabilities_go_with_their_tokens() -> None:
    scores = [{"token": "ab", "logprob": -1}, {"token": "cd", "logprob": -2}]
    event = Event(None, chunk("abcd", choice={"logprobs": {"content": scores, "refusal": None}}).encode(), b"")
    assert json.loads(rest_of("chat", event, 2)[6:])["choices"][0]["logprobs"] == {"content": scores[1:], "refusal": None}
    assert json.loads(rest_of("chat", event, 3)[6:])["choices"][0]["logprobs"] is None
    flat = {"tokens": ["ab", "cd"], "token_logprobs": [-1, -2], "text_offset": [0, 2]}
    legacy = compact({"choices": [{"index": 0, "text": "abcd", "logprobs": flat, "finish_reason": None}]}).encode()
    rest = json.loads(rest_of("completions", Event(None, legacy, b""), 2)[6:])["choices"][0]
    assert rest["logprobs"] == {"tokens": ["cd"], "token_logprobs": [-2], "text_offset": [2]}
    typed = compact({"type": "response.output_text.delta", "delta": "abcd", "logprobs": scores}).encode()
    assert json.loads(rest_of("responses", Event(None, typed, b""), 2)[6:])["logprobs"] == scores[1:]


def test_an_event_keeps_its_name() -> None:
    event = Event(b"content_block_delta", made("messages", "ab"), b"")
    assert rest_of("messages", event, 1).startswith(b"event: content_block_delta\n")


@pytest.mark.parametrize(
    ("dialect", "data"),
    [
        ("chat", b"[DONE]"),
        ("chat", b'{"choices":[]}'),
        ("chat", b'{"choices":[{"delta":{"content":null}}]}'),
        ("chat", b'{"choices":[{"delta":{"content":[{"text":"a"}]}}]}'),
        ("chat", b'{"choices":[{"delta":{"reasoning_content":"\\"content\\""}}]}'),
        ("chat", b'{"error":{"message":"content","content":1}}'),
        ("completions", b'{"choices":[{"text":null}]}'),
        ("responses", b'{"type":"response.output_text.done","text":"output_text.delta"}'),
        ("responses", b'{"type":"response.reasoning_text.delta","delta":"output_text.delta"}'),
        ("messages", b'{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"\\"text_delta\\""}}'),
        ("plain", b'{"choices":[{"delta":{"content":"a"}}]}'),
    ],
)
def test_what_is_no_content_counts_nothing(dialect: str, data: bytes) -> None:
    assert content_of(dialect, data) == ""
