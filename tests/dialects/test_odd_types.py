"""Members of a type that nobody expects: no exception leaves a dialect, and text that is a string is delivered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.reading import event, in_pieces, said
from gateway.dialects import Chat, Completions, Dialect, Messages, Responses
from gateway.dialects.base import DONE
from support.chunks import ROLE, call, chunk, compact

_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(max_size=4) | st.sampled_from(["0", "1", "\ud83d", "type"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "token", "text", "usage", "content", "0"]), inner, max_size=3)
    ),
    max_leaves=6,
)
TEXT = "some words that are a whole delta of text, and a few more "
_SCORES = [{"token": TEXT, "logprob": -1}]
_TEMPLATES: dict[str, tuple[type[Dialect], list[dict[str, Any]]]] = {
    "chat": (
        Chat,
        [
            json.loads(
                chunk(
                    TEXT,
                    reasoning=TEXT,
                    refusal="",
                    role="assistant",
                    reasoning_details=[{"type": "reasoning.text", "text": "x"}],
                    function_call={"name": "f", "arguments": TEXT},
                    tool_calls=[call(0, "c", "get", TEXT)],
                    choice={"logprobs": {"content": _SCORES, "refusal": None}},
                    top={"usage": {"prompt_tokens": 1, "completion_tokens": 2}},
                )
            ),
            json.loads(chunk(finish="stop")),
        ],
    ),
    "completions": (
        Completions,
        [
            {
                "id": "c",
                "object": "text_completion",
                "created": 1,
                "model": "m",
                "usage": {"prompt_tokens": 1},
                "choices": [
                    {
                        "index": 0,
                        "text": TEXT,
                        "finish_reason": None,
                        "logprobs": {"tokens": [TEXT], "token_logprobs": [-1], "top_logprobs": [{"a": 1}], "text_offset": [0]},
                    }
                ],
            }
        ],
    ),
    "messages": (
        Messages,
        [
            {"type": "message_start", "message": {"id": "m", "type": "message", "model": "m", "content": [], "usage": {"input_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": TEXT}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 2, "output_tokens": 3}},
            {"type": "error", "error": {"type": "api_error", "message": "no"}},
            {"type": "ping"},
        ],
    ),
    "responses": (
        Responses,
        [
            {"type": "response.created", "sequence_number": 0, "response": {"id": "r", "model": "m", "output": [], "usage": None}},
            {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": {"id": "i", "type": "message"}},
            {
                "type": "response.output_text.delta",
                "sequence_number": 2,
                "item_id": "i",
                "output_index": 0,
                "content_index": 0,
                "delta": TEXT,
                "logprobs": _SCORES,
            },
            {"type": "response.function_call_arguments.delta", "sequence_number": 3, "item_id": "i", "output_index": 0, "delta": TEXT},
            {"type": "response.unheard_of.delta", "sequence_number": 3, "delta": TEXT},
            {"type": "response.completed", "sequence_number": 4, "response": {"id": "r", "usage": {"input_tokens": 1, "output_tokens": 2}}},
            {"type": "response.failed", "sequence_number": 4, "response": {"id": "r", "error": {"code": "x", "message": "no"}}},
            {"type": "error", "sequence_number": 4, "code": "x", "message": "no"},
        ],
    ),
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, each in inner for place in [(*path, key), *_places(each, (*path, key))]]


def _put(value: Any, path: tuple[Any, ...], odd: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = odd


@st.composite
def odd_events(draw: st.DrawFn, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    template = draw(st.sampled_from(_TEMPLATES[name][1]))
    made = json.loads(json.dumps(template))
    _put(made, draw(st.sampled_from(_places(made))), draw(_ANY))
    return template, made


@pytest.mark.parametrize("name", sorted(_TEMPLATES))
@given(st.data(), st.sampled_from([1.0, 3.0, 100.0]))
def test_no_odd_type_raises_and_the_text_arrives(name: str, data: st.DataObject, tokens: float) -> None:
    dialect = _TEMPLATES[name][0]()
    if name == "chat":
        dialect.read(event(ROLE))
    template, made = data.draw(odd_events(name))
    kind = made.get("type") if isinstance(made.get("type"), str) else template.get("type")
    found = dialect.read(event(compact_escaped(made), kind.encode("utf-8", "replace") if name != "chat" and kind else None))
    if dialect.failure is not None:
        no_choice = any(not isinstance(choice, dict) for choice in _listed(made.get("choices")))
        assert no_choice or template.get("type") in ("error", "response.failed"), dialect.failure
        assert dialect.fail(dialect.failure).data
        return
    found += dialect.close()
    out = b"".join(part.data for piece in found for part in in_pieces(piece, tokens))
    texts = "".join(_texts([json.loads(each) for each in said_of(out)]))
    assert texts.count(TEXT) >= "".join(_texts([made])).count(TEXT)
    for usage in (dialect.usage and dialect.usage.input_tokens, dialect.usage and dialect.usage.output_tokens):
        assert usage is None or type(usage) is int


def compact_escaped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def said_of(out: bytes) -> list[str]:
    return [line[6:] for line in out.replace(DONE, b"").decode("utf-8", "surrogatepass").split("\n") if line.startswith("data: ")]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(events: list[Any]) -> list[str]:
    """What the places of text hold, place by place."""
    by_place: dict[str, str] = {}

    def add(place: str, value: Any) -> None:
        if isinstance(value, str):
            by_place[place] = by_place.get(place, "") + value

    for top in events:
        if isinstance(top, dict):
            delta = top.get("delta")
            add("delta", delta)
            if isinstance(delta, dict):
                for key, value in delta.items():
                    add(key, value)
            choices = top.get("choices")
            for choice in choices if isinstance(choices, list) else ():
                if isinstance(choice, dict):
                    add("text", choice.get("text"))
                    inner = choice.get("delta")
                    for key, value in inner.items() if isinstance(inner, dict) else ():
                        add(key, value)
    return [each + "\n" for each in by_place.values()]


@pytest.mark.parametrize(
    ("dialect", "odd"),
    [
        (Messages(), {"type": "message_start", "message": {"usage": 5}}),
        (Messages(), {"type": "content_block_delta", "index": 0, "delta": {"type": ["text_delta"], "text": "x"}}),
        (Messages(), {"type": "content_block_start", "index": 0, "content_block": {"type": ["text"], "text": "x"}}),
        (Responses(), {"type": "response.output_text.delta", "sequence_number": 1, "delta": "x", "logprobs": 5}),
        (Responses(), {"type": "response.output_text.delta", "sequence_number": True, "delta": "x"}),
    ],
)
def test_an_event_with_an_odd_member_passes_as_it_came(dialect: Dialect, odd: dict[str, Any]) -> None:
    assert said(dialect.read(event(compact(odd), odd["type"].encode()))) == [compact(odd)]
    assert dialect.failure is None


def test_a_delta_that_is_a_string_is_the_content() -> None:
    dialect = Chat()
    dialect.read(event(ROLE))
    whole = json.loads(chunk("x"))
    whole["choices"][0]["delta"] = "hello"
    [made] = said(dialect.read(event(compact(whole))))
    assert json.loads(made)["choices"][0]["delta"] == {"content": "hello"}


@pytest.mark.parametrize("word", ["[END]", "[DONE ]", "[DONE", "[ping]", "[]", "[1]", "  [END]"])
def test_a_word_in_brackets_is_no_lost_json(word: str) -> None:
    for dialect in (Chat(), Completions(), Messages(), Responses()):
        assert dialect.read(event(word)) == []
        assert dialect.failure is None


@pytest.mark.parametrize("data", ['{"choices":[{"delta', '[{"type":"x', '["a'])
def test_json_that_is_cut_off_is_a_failure(data: str) -> None:
    for dialect in (Chat(), Completions(), Messages(), Responses()):
        assert dialect.read(event(data)) == []
        assert dialect.failure is not None
        assert dialect.failure.code == "upstream_bad_event"
