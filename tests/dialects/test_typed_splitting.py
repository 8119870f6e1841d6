"""Splitting the deltas of Responses and Messages, and halves of surrogate pairs in them and in tool arguments."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.reading import event, in_pieces, meaning, objects, pieces
from gateway.dialects import Chat, Dialect, Messages, Responses
from gateway.piece import Piece
from support.chunks import ROLE, STOP, call, chunk, whole_pairs

_TOKEN = st.sampled_from(["alpha", " beta", "!", " ", "漢", "", "\n", " longer token"])
_TOKENS = st.lists(_TOKEN, min_size=1, max_size=40).filter(lambda tokens: any(tokens))
_SIZES = st.sampled_from([1.0, 2.0, 8.0])


def _read(dialect: Dialect, *sent: dict[str, Any]) -> list[Piece]:
    return [piece for each in sent for piece in dialect.read(event(json.dumps(each), each["type"].encode()))]


def _cut(found: list[Piece], tokens: float) -> list[Any]:
    return objects([part for piece in found for part in in_pieces(piece, tokens)])


def output_text(delta: str, number: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "type": "response.output_text.delta",
        "sequence_number": number,
        "item_id": "i",
        "output_index": 0,
        "content_index": 0,
        "delta": delta,
        **more,
    }


def text_delta(text: str, member: str = "text", kind: str = "text_delta", **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, member: text}, **more}


@given(_TOKENS, _SIZES, st.booleans())
def test_each_log_probability_of_a_response_arrives_once_with_its_token(tokens: list[str], size: float, infinite: bool) -> None:
    entries = [{"token": token, "logprob": -1.5 - at} for at, token in enumerate(tokens)]
    data = json.dumps(output_text("".join(tokens), logprobs=entries))
    if infinite:
        data = data.replace("-1.5", "-Infinity")
        entries[0]["logprob"] = None
    made = _cut(Responses().read(event(data, b"response.output_text.delta")), size)
    assert [entry for each in made for entry in each["logprobs"]] == entries
    for each in made:
        assert "".join(entry["token"] for entry in each["logprobs"]) == each["delta"]


@given(_TOKENS, _TOKENS, _SIZES)
def test_each_log_probability_of_a_chunk_arrives_once_with_its_text(content: list[str], refusal: list[str], size: float) -> None:
    texts = {"content": content, "refusal": refusal}
    lists = {name: [{"token": token, "logprob": -1 - at} for at, token in enumerate(tokens)] for name, tokens in texts.items()}
    made = _cut(pieces(ROLE, chunk("".join(content), refusal="".join(refusal), choice={"logprobs": lists}))[1:], size)
    choices = [each["choices"][0] for each in made]
    for name, entries in lists.items():
        assert [entry for choice in choices for entry in (choice["logprobs"] or {}).get(name) or ()] == entries
        for choice in choices:
            tokens = [entry["token"] for entry in (choice["logprobs"] or {}).get(name) or ()]
            assert "".join(tokens) == choice["delta"].get(name, "")


@pytest.mark.parametrize(
    "logprobs",
    [
        5,
        {"content": 5},
        {"content": [5]},
        {"reasoning": [{"token": "x"}]},
        {"content": [{"token": "x"}]},
        {"content": None, "sum": 1.5},
        [1, 2],
    ],
)
def test_log_probabilities_of_no_known_text_keep_a_chunk_whole(logprobs: Any) -> None:
    assert len(_cut(pieces(ROLE, chunk("words " * 30, choice={"logprobs": logprobs}))[1:], 2.0)) == 1


@pytest.mark.parametrize("logprobs", [5, "x", {"content": []}, [5], [{"token": "x"}], [{"token": 5}]])
def test_log_probabilities_of_no_known_text_keep_a_response_delta_whole(logprobs: Any) -> None:
    assert len(_cut(_read(Responses(), output_text("words " * 30, logprobs=logprobs)), 2.0)) == 1


@pytest.mark.parametrize(
    ("dialect", "sent"),
    [
        (Chat(), json.loads(chunk("words " * 30, top={"cost": 0.5, "usage": {"prompt_tokens": 1}, "flag": True}))),
        (Responses(), output_text("words " * 30, cost=0.5, annotations=[1], flag=True, logprobs=[])),
        (Messages(), text_delta("words " * 30, usage={"output_tokens": 5}, cost=0.5, flag=True)),
    ],
)
def test_members_that_nobody_knows_come_once_with_the_last_part(dialect: Dialect, sent: dict[str, Any]) -> None:
    if isinstance(dialect, Chat):
        dialect.read(event(ROLE))
    made = _cut(dialect.read(event(json.dumps(sent), b"x" if "type" in sent else None)), 2.0)
    assert len(made) > 5
    for name in sent.keys() & {"cost", "flag", "annotations", "usage"}:
        assert [each[name] for each in made if each.get(name) is not None] == [sent[name]]
        assert made[-1][name] == sent[name]


def test_an_event_behind_a_split_is_renumbered_whatever_its_text_says() -> None:
    inner = {"sequence_number": 7, "note": 'data: {"sequence_number": 3}'}
    later = {"type": "response.unheard_of", "sequence_number": 1, "item": inner, "text": "event: x data: y"}
    dialect = Responses()
    found = _read(dialect, output_text("words " * 30), later)
    made = _cut(found, 2.0)
    assert [each["sequence_number"] for each in made] == list(range(len(made)))
    assert made[-1] == {**later, "sequence_number": len(made) - 1}


# Halves of surrogate pairs

HIGH, LOW = "\ud83d", "\ude80"
_TEXTS = st.lists(st.sampled_from(["a", "🚀", HIGH, LOW, "bc "]), min_size=1, max_size=4).map("".join)


@given(st.lists(_TEXTS, min_size=1, max_size=5), st.booleans())
def test_halves_in_a_response_meet_and_none_is_lost(texts: list[str], ping: bool) -> None:
    dialect = Responses()
    sent: list[dict[str, Any]] = []
    for text in texts:
        sent.append(output_text(text, len(sent), logprobs=[]))
        if ping:
            sent.append({"type": "keepalive", "sequence_number": len(sent)})
    sent.append({"type": "response.output_text.done", "sequence_number": len(sent), "text": "x"})
    made = objects(_read(dialect, *sent))
    assert whole_pairs("".join(each.get("delta", "") for each in made)) == whole_pairs("".join(texts))
    assert [each["sequence_number"] for each in made] == list(range(len(made)))
    assert made[-1]["type"] == "response.output_text.done"
    _no_pair_is_parted([each["delta"] for each in made if each.get("delta")])


@pytest.mark.parametrize(("kind", "member"), [("text_delta", "text"), ("thinking_delta", "thinking"), ("input_json_delta", "partial_json")])
@given(st.lists(_TEXTS, min_size=1, max_size=5), st.booleans())
def test_halves_in_a_message_meet_and_none_is_lost(kind: str, member: str, texts: list[str], closed: bool) -> None:
    dialect = Messages()
    found = _read(
        dialect, *[text_delta(text, member, kind) for text in texts], *([{"type": "content_block_stop", "index": 0}] if closed else [])
    )
    made = objects([*found, *dialect.close()])
    said = [each["delta"][member] for each in made if "delta" in each]
    assert whole_pairs("".join(said)) == whole_pairs("".join(texts))
    assert made[-1]["type"] == "message_stop"
    _no_pair_is_parted([each for each in said if each])


@given(st.lists(st.tuples(st.integers(0, 1), _TEXTS), min_size=1, max_size=6))
def test_halves_in_tool_arguments_meet_in_their_own_call(fragments: list[tuple[int, str]]) -> None:
    dialect = Chat()
    found = pieces(ROLE, dialect=dialect)
    for index, text in fragments:
        found += dialect.read(event(json.dumps(json.loads(_escaped(chunk(tool_calls=[call(index, None, None, text)]))))))
    made = objects([*found, *dialect.close()])
    for index in {index for index, _ in fragments}:
        said = [
            part["function"]["arguments"]
            for each in made
            for part in each["choices"][0]["delta"].get("tool_calls", ())
            if part["index"] == index
        ]
        assert whole_pairs("".join(said)) == whole_pairs("".join(text for owner, text in fragments if owner == index))
        _no_pair_is_parted([each for each in said if each])


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)


def _no_pair_is_parted(texts: list[str]) -> None:
    for before, after in pairwise(texts):
        assert not ("\ud800" <= before[-1] <= "\udbff" and "\udc00" <= after[0] <= "\udfff")


# Tool calls


def test_a_name_that_is_repeated_without_an_id_comes_once() -> None:
    got = meaning(
        ROLE,
        chunk(tool_calls=[call(0, "c", "get", "{")]),
        chunk(tool_calls=[call(0, None, "get", "}")]),
        chunk(tool_calls=[call(0, None, "get")]),
        STOP,
    )
    assert (got.first.calls[0].name, got.first.calls[0].arguments) == ("get", "{}")


def test_a_name_in_pieces_is_left_alone() -> None:
    assert (
        meaning(ROLE, chunk(tool_calls=[call(0, "c", "get_", "")]), chunk(tool_calls=[call(0, None, "weather", "")]), STOP)
        .first.calls[0]
        .name
        == "get_weather"
    )


def test_a_name_beside_a_new_id_is_that_of_another_call() -> None:
    found = objects(pieces(ROLE, *[chunk(tool_calls=[call(0, each, "get", "{}")]) for each in ("a", "b")]))[1:]
    assert [each["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] for each in found] == ["get", "get"]


def test_quoted_indexes_of_calls_are_those_indexes() -> None:
    def quoted(index: str, *more: str | None) -> str:
        return chunk(tool_calls=[{**call(0, *more), "index": index}])

    got = meaning(
        ROLE, quoted("0", "a", "f", ""), quoted("1", "b", "g", ""), quoted("0", None, None, "zero"), quoted("1", None, None, "one"), STOP
    )
    assert {index: (each.id, each.arguments) for index, each in got.first.calls.items()} == {0: ("a", "zero"), 1: ("b", "one")}
