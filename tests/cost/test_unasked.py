"""Asking for usage where the client did not, and the stream that is left when it is taken out again: byte for byte the one it would have been."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from gateway.dialects import Chat, Completions
from gateway.dialects.base import Usage
from gateway.dialects.choices import ChoicesDialect
from gateway.policy.asking import asking_usage, asks_already, refused_for_it
from support.chunks import DONE, ENVELOPE, ROLE, STOP, USAGE, chunk, compact, words
from support.plays import sse
from support.virtual import Arrival, Relay, stream

NULL = {"usage": None}
USAGE_CHUNK = chunk(top={"choices": [], "usage": USAGE})


def played(dialect: ChoicesDialect, datas: list[str], size: int = 2**20) -> bytes:
    """What a client gets of these events, which come in reads of so many bytes."""
    data = sse(datas)
    arrivals: list[Arrival] = [(0.0, data[at : at + size]) for at in range(0, len(data), size)]
    return b"".join(frame for _, frame in Relay(stream(dialect, raw=True)).play(arrivals, end=True))


def hiding(dialect: ChoicesDialect) -> ChoicesDialect:
    dialect.hides_usage = True
    return dialect


def with_usage(datas: list[str], where: str = "last") -> list[str]:
    """As OpenAI sends them once usage is asked for: null in each chunk, the figures in one without choices."""
    out = []
    for data in datas:
        if data != DONE:
            top = json.loads(data)
            data = compact({**NULL, **top} if where == "first" else {**top, **NULL})
            if where == "before obfuscation":
                data = data[:-1] + ',"obfuscation":"aB3\\"x"}'
        out.append(data)
    return [*out[:-1], USAGE_CHUNK, DONE]


WORDS = words("Hello", ", wörld 👋", ' a "usage":null in text', " and on and on, a long one that may be cut into several pieces of text")


@pytest.mark.parametrize("where", ["last", "first"])
@pytest.mark.parametrize("size", [2**20, 7])
def test_the_stream_is_the_one_that_nobody_was_asked_for(where: str, size: int) -> None:
    dialect = hiding(Chat())
    assert played(dialect, with_usage(WORDS, where), size) == played(Chat(), WORDS)
    assert dialect.usage == Usage(5, 7)


def test_what_stands_behind_the_null_stays() -> None:
    plain = [data if data == DONE else data[:-1] + ',"obfuscation":"aB3\\"x"}' for data in WORDS]
    assert played(hiding(Chat()), with_usage(WORDS, "before obfuscation")) == played(Chat(), plain)


def test_in_several_choices_too() -> None:
    datas = [
        chunk("a", index=0),
        chunk("b", index=1),
        chunk(index=1, finish="stop"),
        chunk("c", index=0),
        chunk(index=0, finish="length"),
        DONE,
    ]
    dialect = hiding(Chat(2))
    assert played(dialect, with_usage(datas)) == played(Chat(2), datas)
    assert dialect.usage == Usage(5, 7)


def test_in_a_chunk_of_several_choices_too() -> None:
    both = compact(
        {**ENVELOPE, "choices": [{"index": at, "delta": {"content": text}, "finish_reason": None} for at, text in enumerate("ab")]}
    )
    datas = [both, chunk(index=0, finish="stop"), chunk(index=1, finish="stop"), DONE]
    assert played(hiding(Chat(2)), with_usage(datas)) == played(Chat(2), datas)


def test_in_legacy_completions_too() -> None:
    def said(text: str, finish: str | None = None) -> str:
        return compact({**ENVELOPE, "object": "text_completion", "choices": [{"text": text, "index": 0, "finish_reason": finish}]})

    datas = [said("one "), said("two"), said("", "stop"), DONE]
    dialect = hiding(Completions())
    assert played(dialect, with_usage(datas)) == played(Completions(), datas)
    assert dialect.usage == Usage(5, 7)


def test_a_client_that_asked_gets_it_as_it_came() -> None:
    datas = with_usage(WORDS)
    assert played(Chat(), datas) == sse(datas)


def test_usage_that_comes_with_text_or_a_finish_reason_is_the_upstreams_own_way_and_stays() -> None:
    datas = [ROLE, chunk("a"), chunk(finish="stop", top={"usage": USAGE}), DONE]
    dialect = hiding(Chat())
    assert played(dialect, datas) == sse(datas)
    assert dialect.usage == Usage(5, 7)


def test_what_else_a_chunk_with_usage_says_stays() -> None:
    more = chunk(top={"choices": [], "usage": USAGE, "timings": {"predicted_per_second": 80.71}})
    left = chunk(top={"choices": [], "timings": {"predicted_per_second": 80.71}})
    assert played(hiding(Chat()), [ROLE, chunk("a"), STOP, more, DONE]) == sse([ROLE, chunk("a"), STOP, left, DONE])


def test_a_null_that_belongs_to_a_choice_stays() -> None:
    inner = compact({**ENVELOPE, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None, "usage": None}]})
    assert played(hiding(Chat()), [inner, STOP, DONE]) == sse([inner, STOP, DONE])


def test_blanks_as_python_writes_them_are_kept() -> None:
    spaced = json.dumps(json.loads(chunk("word")))
    asked = spaced[:-1] + ', "usage": null}'
    assert played(hiding(Chat()), [asked, STOP, DONE]) == sse([spaced, STOP, DONE])


@given(st.text(max_size=40), st.sampled_from(["last", "first"]))
def test_no_text_is_mistaken_for_a_member(text: str, where: str) -> None:
    datas = [ROLE, chunk(text + ',"usage":null'), chunk('"usage":null}' + text), STOP, DONE]
    assert played(hiding(Chat()), with_usage(datas, where)) == played(Chat(), datas)


# The request


BODY = b'{ "model" : "m", "stream":true , "seed": 1e3, "messages": [] }\n'


def test_all_else_in_a_body_keeps_its_bytes() -> None:
    asked = asking_usage(BODY, UNSET)
    assert asked == b'{"stream_options":{"include_usage":true}, "model" : "m", "stream":true , "seed": 1e3, "messages": [] }\n'


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (None, {"include_usage": True}),
        ({}, {"include_usage": True}),
        ({"include_usage": False}, {"include_usage": True}),
        ({"include_obfuscation": False}, {"include_obfuscation": False, "include_usage": True}),
    ],
)
def test_options_that_are_there_are_added_to(options: Any, wanted: Any) -> None:
    asked = asking_usage(b'{"seed":1e3,"stream_options":' + json.dumps(options).encode() + b',"n":2}', options)
    assert asked is not None
    assert json.loads(asked) == {"seed": 1000.0, "stream_options": wanted, "n": 2}
    assert b"1e3" in asked


def test_options_of_a_wrong_type_are_the_upstreams_to_refuse() -> None:
    assert asking_usage(b'{"stream_options":5}', 5) is None
    assert asking_usage(b"[]", UNSET) is None


def test_who_asks_by_itself_is_left_alone() -> None:
    assert asks_already({"include_usage": True, "x": 1})
    assert not any(map(asks_already, (UNSET, None, {}, {"include_usage": False}, {"include_usage": 1}, [])))


def test_a_refusal_is_known_by_its_words() -> None:
    assert refused_for_it(b'{"error":{"message":"Extra inputs are not permitted: stream_options"}}')
    assert not refused_for_it(b'{"error":{"message":"no such model"}}')
