"""Splitting a heavy delta and adding the parts up again gives the same, whatever the delta holds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from dialects.reading import event, in_pieces, objects, pieces, said
from gateway.dialects import Chat, Completions, Dialect
from gateway.piece import Kind, Piece
from support import extras
from support.chunks import ENVELOPE, ROLE, USAGE, call, chunk, collect, compact, whole_pairs

FAMILY = "👨‍👩‍👧‍👦"
_BITS = st.sampled_from(
    [
        "word ",
        "longer words and more ",
        "\n\n",
        "\r\n",
        "é",
        "e\u0301",
        FAMILY,
        "🇩🇪🇫🇷",
        "👍🏽",
        "नमस्ते",
        "漢字かな",
        "\t",
        '"',
        "\\",
        "</x>",
        "\u2028",
        "\ud83d",
        "\ude80",
        "1\ufe0f\u20e3",
    ]
)
LONGEST = 8.0  # tokens of the longest character among them: what cannot be cut cannot weigh less
TEXTS = st.lists(_BITS, min_size=1, max_size=30).map("".join)
SIZES = st.sampled_from([1.0, 2.0, 3.7, 8.0, 22.0])
_EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "annotations": st.just([{"a": 1.50}]),
        "role": st.just("assistant"),
        "audio": st.just({"id": "a"}),
        "obfuscation": st.just("pad"),
    },
)
_TOP = st.fixed_dictionaries(
    {},
    optional={
        "usage": st.just(USAGE),
        "x_groq": st.just({"id": "r"}),
        "obfuscation": st.just("zz"),
        "service_tier": st.just("default"),
        "citations": st.just(["u"]),
    },
)
_CHOICE = st.fixed_dictionaries(
    {}, optional={"content_filter_results": st.just({"hate": {"filtered": False}}), "native_finish_reason": st.just("end")}
)
_CALLS = st.lists(st.builds(lambda text, first: (text, first), TEXTS, st.booleans()), max_size=2).map(
    lambda made: [
        call(index, f"c{index}" if first else None, "get" if first else None, text, extra=index) for index, (text, first) in enumerate(made)
    ]
)


@st.composite
def deltas(draw: st.DrawFn) -> str:
    delta: dict[str, Any] = draw(_EXTRAS)
    for name in draw(st.lists(st.sampled_from(["content", "reasoning_content", "reasoning", "refusal"]), unique=True, max_size=3)):
        delta[name] = draw(TEXTS)
    made = draw(_CALLS)
    if made:
        delta["tool_calls"] = made
    finish = draw(st.sampled_from([None, None, "stop"]))
    ensure_ascii = draw(st.booleans())
    whole = json.loads(chunk(finish=finish, top=draw(_TOP), choice=draw(_CHOICE)))
    whole["choices"][0]["delta"] = delta
    text = json.dumps(whole, ensure_ascii=ensure_ascii, separators=draw(st.sampled_from([(",", ":"), (", ", ": ")])))
    return text if ensure_ascii else _escaped(text)


def _escaped(text: str) -> str:
    """Halves of pairs can stand in JSON only as escapes."""
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)


def opened(data: str, dialect: Dialect | None = None) -> list[Piece]:
    """The pieces of this chunk in the midst of a stream."""
    reader = dialect or Chat()
    pieces(ROLE, chunk("before "), dialect=reader)
    return reader.read(event(data))


@given(deltas(), SIZES)
def test_split_then_merged_is_the_identity(data: str, tokens: float) -> None:
    dialect = Chat()
    found = opened(data, dialect)
    parts = [part for piece in found for part in in_pieces(piece, tokens)]
    whole, again = said(found), said(parts)
    rest = said(dialect.close())[:-1]  # half a character that waited
    assert collect(again).choices == collect(whole).choices
    assert collect(again).usages == collect(whole).usages
    assert extras.once(again) == extras.once(whole)
    assert extras.envelope(again) == extras.envelope(whole)
    texts = collect([*again, *rest]).first.texts
    original = collect([data]).first
    assert {key: whole_pairs(text) for key, text in texts.items()} == original.texts
    calls = collect([*again, *rest]).first.calls
    assert {index: replace(each, arguments=whole_pairs(each.arguments)) for index, each in calls.items()} == original.calls


@given(deltas(), SIZES)
def test_every_part_is_a_chunk_with_the_whole_envelope(data: str, tokens: float) -> None:
    for piece in opened(data):
        for part in in_pieces(piece, tokens):
            for each in said([part]):
                made = json.loads(each)
                assert {key: made[key] for key in ENVELOPE} == ENVELOPE
                [choice] = made["choices"]
                assert choice["index"] == 0
                assert "finish_reason" in choice
                each.encode()  # no half of a pair stands there unescaped


@given(deltas(), SIZES)
def test_what_is_said_once_is_said_once(data: str, tokens: float) -> None:
    dialect = Chat()
    found = [*opened(data, dialect), *dialect.close()[:-1]]  # a finish reason that waits is out then
    parts = [part for piece in found for part in in_pieces(piece, tokens)]
    sent, made = json.loads(data), objects(parts)
    choices = [choice for top in made for choice in top["choices"]]
    sent_delta = sent["choices"][0]["delta"]
    assert sum("role" in choice["delta"] for choice in choices) == ("role" in sent_delta)
    assert sum(top.get("usage") is not None for top in made) == ("usage" in sent)
    assert sum(choice["finish_reason"] is not None for choice in choices) <= 1
    calls = [part for choice in choices for part in choice["delta"].get("tool_calls", ())]
    for index, each in enumerate(sent_delta.get("tool_calls", ())):
        own = [part for part in calls if part["index"] == index]
        assert sum("id" in part for part in own) == ("id" in each)
        assert sum("name" in part["function"] for part in own) == ("name" in each["function"])
    if "role" in sent_delta:
        assert "role" in choices[0]["delta"]
    for choice in choices[:-1]:
        assert choice["finish_reason"] is None


@given(deltas(), SIZES)
def test_parts_weigh_what_the_whole_weighed_and_none_much_more_than_asked(data: str, tokens: float) -> None:
    for piece in opened(data):
        parts = in_pieces(piece, tokens)
        assert sum(part.weight for part in parts) == pytest.approx(piece.weight)
        for part in parts[:-1]:
            assert part.weight <= tokens + LONGEST
        assert all(part.size > 0 for part in parts)


@given(TEXTS, SIZES, st.sampled_from(["content", "reasoning", "refusal"]))
def test_no_cut_falls_inside_a_character_as_people_see_it(text: str, tokens: float, name: str) -> None:
    text = whole_pairs(text).encode("utf-16", "replace").decode("utf-16")
    [piece] = opened(chunk(**{name: text}))
    parts = [made["choices"][0]["delta"].get(name, "") for made in objects(in_pieces(piece, tokens))]
    borders = {0, *(found.end() for found in regex.finditer(r"\X", text))}
    place = 0
    for part in parts:
        place += len(part)
        assert place in borders
    assert "".join(parts) == text


# Log-probabilities

_TOKEN = st.sampled_from(["alpha", " beta", "!", " ", "漢", "e", "\u0301", "", "\n", FAMILY, " longer token"])


@given(st.lists(_TOKEN, min_size=1, max_size=25), SIZES)
def test_log_probabilities_go_with_their_tokens(tokens: list[str], size: float) -> None:
    entries = [{"token": token, "logprob": -0.5 - at, "bytes": list(token.encode()), "top_logprobs": []} for at, token in enumerate(tokens)]
    data = chunk("".join(tokens), choice={"logprobs": {"content": entries, "refusal": None}})
    [piece] = opened(data)
    made = objects(in_pieces(piece, size))
    assert [entry for each in made for entry in each["choices"][0]["logprobs"]["content"]] == entries
    for each in made:
        [choice] = each["choices"]
        assert "".join(entry["token"] for entry in choice["logprobs"]["content"]) == (choice["delta"].get("content") or "")


@given(st.lists(_TOKEN, min_size=1, max_size=25), SIZES)
def test_log_probabilities_of_legacy_completions_go_with_their_tokens(tokens: list[str], size: float) -> None:
    lists = {
        "tokens": tokens,
        "token_logprobs": [-0.5 - at for at in range(len(tokens))],
        "top_logprobs": [{token: -0.25} for token in tokens],
        "text_offset": list(range(len(tokens))),
    }
    dialect = Completions()
    pieces(legacy("before"), dialect=dialect)
    [piece] = dialect.read(event(legacy("".join(tokens), logprobs=lists)))
    made = [each["choices"][0] for each in objects(in_pieces(piece, size))]
    for key, values in lists.items():
        assert [value for choice in made for value in choice["logprobs"][key]] == values
    for choice in made:
        assert "".join(choice["logprobs"]["tokens"]) == choice["text"]


def legacy(text: str, **choice: Any) -> str:
    return compact({**ENVELOPE, "object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": None, **choice}]})


@pytest.mark.parametrize(
    "logprobs",
    [
        {"content": [{"token": "other", "logprob": -1}], "refusal": None},  # tokens that do not make up the text
        {"content": None, "refusal": [{"token": "words ", "logprob": -1}]},
    ],
)
@pytest.mark.parametrize("name", ["content", "refusal", "reasoning"])
def test_log_probabilities_that_cannot_be_told_apart_keep_the_delta_whole(name: str, logprobs: dict[str, Any]) -> None:
    data = chunk(choice={"logprobs": logprobs}, **{name: "words " * 30})
    [piece] = opened(data)
    assert said(in_pieces(piece, 4.0)) == [data]


@pytest.mark.parametrize("logprobs", [{"content": [], "refusal": None}, {"content": None}])
def test_log_probabilities_that_are_empty_stay_empty_and_come_once(logprobs: dict[str, Any]) -> None:
    [piece] = opened(chunk("words " * 30, choice={"logprobs": logprobs}))
    made = [each["choices"][0]["logprobs"] for each in objects(in_pieces(piece, 4.0))]
    assert len(made) > 1
    assert [each for each in made if each is not None] == [logprobs]


def test_log_probabilities_of_the_text_stay_with_it_when_reasoning_is_cut_off() -> None:
    logprobs = {"content": [{"token": "a", "logprob": -1}, {"token": "b" * 40, "logprob": -2}]}
    [piece] = opened(chunk("a" + "b" * 40, reasoning="thought " * 10, choice={"logprobs": logprobs}))
    made = [each["choices"][0] for each in objects(in_pieces(piece, 1.0))]
    for choice in made:
        tokens = [entry["token"] for entry in (choice["logprobs"] or {"content": []})["content"]]
        assert "".join(tokens) == choice["delta"].get("content", "")


# What must stay whole


@pytest.mark.parametrize(
    "delta",
    [
        {"content": [{"type": "text", "text": "words " * 50}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x" * 900, "signature": "s"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "words " * 90, "signature": "s"}]},
        {"function_call": {"arguments": "words " * 50}},
        {"tool_calls": [{"index": 0, "id": "x" * 900, "type": "function", "function": {"name": "n" * 900, "arguments": ""}}]},
    ],
)
def test_what_is_not_plain_text_is_never_cut(delta: dict[str, Any]) -> None:
    data = chunk(**delta)
    [piece] = opened(data)
    assert said(in_pieces(piece, 1.0)) == [data]


def test_a_custom_call_beside_text_is_not_made_a_function() -> None:
    custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    [piece] = opened(chunk("words " * 20, tool_calls=[custom]))
    made = objects(in_pieces(piece, 4.0))
    assert [part for each in made for part in each["choices"][0]["delta"].get("tool_calls", ())] == [custom]


def test_the_kinds_of_the_parts_are_those_of_their_texts() -> None:
    [piece] = opened(chunk("words " * 10, reasoning="words " * 10, tool_calls=[call(0, "a", "n", "words " * 10)]))
    seen = list(dict.fromkeys(part.kind for part in in_pieces(piece, 4.0)))
    assert seen == [Kind.REASONING, Kind.CONTENT, Kind.TOOL]


def test_an_uncut_piece_is_never_rendered_anew() -> None:
    data = '{"id" : "x",  "choices":[{"index":0, "delta":{"content":"' + "words " * 30 + '"}, "finish_reason":null}]}'
    [piece] = opened(data)
    assert piece.data == b"data: " + data.encode() + b"\n\n"
    head, tail = piece.cut(3.0) or (piece, piece)
    assert head.data != tail.data
    assert piece.data == b"data: " + data.encode() + b"\n\n"


def test_cutting_off_a_little_costs_a_little() -> None:
    """A megabyte in one delta, cut a frame at a time: the rest is not rendered, nor weighed, anew at each cut."""
    [piece] = opened(chunk("words and more words " * 5000))
    rendered = 0
    while (parts := piece.cut(8.0)) is not None:
        head, piece = parts
        rendered += len(head.data)
    assert rendered < 100 * 5000 * 21
