"""Legacy completions: texts of choices that know no delta."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dialects.reading import event, in_pieces, meaning, objects, pieces, said
from gateway.dialects import Completions
from gateway.piece import Kind
from support.chunks import DONE, USAGE, compact

ENVELOPE = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}


def text(words: Any, index: int | None = 0, finish: str | None = None, **more: Any) -> str:
    place = {} if index is None else {"index": index}
    return compact({**ENVELOPE, "choices": [{"text": words, **place, "logprobs": None, "finish_reason": finish}], **more})


def test_texts_pass_in_their_own_bytes() -> None:
    datas = [text("one"), text(" two"), text("", finish="stop"), DONE]
    found = pieces(*datas, dialect=Completions())
    assert said(found) == datas
    assert [(piece.kind, piece.weight > 0) for piece in found[:2]] == [(Kind.CONTENT, True)] * 2


def test_no_delta_is_ever_invented() -> None:
    found = objects(pieces(text("a"), text("b", None), text(None), text("c", finish="stop"), DONE, dialect=Completions()))
    assert not any("delta" in choice for top in found for choice in top["choices"])


def test_prompts_in_a_batch_each_have_their_proof() -> None:
    dialect = Completions(2)
    found = pieces(text("a", 1), text("", 1, "stop"), dialect=dialect)
    assert not dialect.proven
    found += pieces(text("b"), text("", 0, "length"), dialect=dialect)
    assert dialect.proven
    got = meaning(DONE, dialect=dialect)
    assert got.done == 1
    assert {top["choices"][0]["index"] for top in objects(found)} == {0, 1}


def test_a_finish_reason_with_the_only_text_is_taken_off_it() -> None:
    data = text("whole answer", finish="stop", usage=USAGE)
    made = objects(pieces(data, DONE, dialect=Completions()))
    assert [each["choices"][0]["text"] for each in made] == ["whole answer", ""]
    assert [each["choices"][0]["finish_reason"] for each in made] == [None, "stop"]
    assert [each.get("usage") for each in made] == [None, USAGE]


def test_parts_of_a_text_keep_the_envelope() -> None:
    dialect = Completions()
    [_, piece] = pieces(text("a"), text("words " * 20, finish=None, timings={"n": 1}), dialect=dialect)
    made = objects(in_pieces(piece, 4.0))
    assert "".join(each["choices"][0]["text"] for each in made) == "words " * 20
    assert all({key: each[key] for key in ENVELOPE} == ENVELOPE for each in made)
    assert [each for each in made if "timings" in each] == [made[-1]]
    assert len(made) > 4


def test_half_a_character_waits_for_the_other_half() -> None:
    first, second = (text("?").replace("?", half) for half in ("a\\ud83d", "\\ude80b"))
    made = objects(pieces(text("x"), first, second, dialect=Completions()))
    assert [each["choices"][0]["text"] for each in made] == ["x", "a", "🚀b"]


def test_heartbeat_chunk_is_an_empty_text() -> None:
    dialect = Completions()
    dialect.read(event(text("a")))
    beat = dialect.heartbeat("chunk")
    assert beat is not None
    made = json.loads(beat.removeprefix(b"data: "))
    assert (made["id"], made["object"], made["choices"][0]["text"]) == ("cmpl-1", "text_completion", "")


@pytest.mark.parametrize("data", [text(""), text(None)])
def test_empty_texts_are_no_content_yet(data: str) -> None:
    dialect = Completions()
    dialect.read(event(data))
    assert not dialect.committed
