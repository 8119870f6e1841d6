"""Chat completions: what passes as it is, and what is mended."""

from __future__ import annotations

import json

import pytest

from dialects.reading import kinds, meaning, objects, pieces, said
from gateway.dialects import Chat
from gateway.piece import CUT_FROM_TOKENS, Kind
from support.chunks import DONE, ROLE, STOP, USAGE, call, chunk, compact

USAGE_CHUNK = chunk(top={"choices": [], "usage": USAGE})
LONG = "word " * 40


# Kinds and weights


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (chunk("text"), Kind.CONTENT),
        (chunk(refusal="text"), Kind.CONTENT),
        (chunk(reasoning_content="text"), Kind.REASONING),
        (chunk(reasoning="text"), Kind.REASONING),
        (chunk(None, reasoning="text"), Kind.REASONING),
        (chunk("", reasoning_content="text"), Kind.REASONING),
        (chunk(tool_calls=[call(0, arguments="text")]), Kind.TOOL),
        (chunk(function_call={"arguments": "text"}), Kind.TOOL),
        (chunk([{"type": "text", "text": "text"}]), Kind.CONTENT),
        (chunk([{"type": "thinking", "thinking": [{"type": "text", "text": "text"}]}]), Kind.REASONING),
    ],
)
def test_text_is_of_the_kind_that_its_field_says_and_keeps_its_bytes(data: str, kind: Kind) -> None:
    found = pieces(ROLE, data)[1:]
    assert kinds(found) == [kind]
    assert found[0].weight == 1.0
    assert said(found) == [data]


@pytest.mark.parametrize(
    "data",
    [
        chunk(""),
        chunk(annotations=[{"type": "url_citation"}]),
        chunk(audio={"id": "a", "data": "UklGRg=="}),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "x" * 500}]),
        chunk(top={"choices": [], "prompt_filter_results": []}),
        USAGE_CHUNK,
        compact({"object": "something.new", "hello": 1}),
    ],
)
def test_what_is_no_text_has_no_weight_and_keeps_its_bytes(data: str) -> None:
    found = pieces(ROLE, chunk("x"), data)[2:]
    assert kinds(found) == [Kind.STRUCTURE]
    assert found[0].weight == 0.0
    assert said(found) == [data]


def test_opening_of_a_call_is_the_arrival_of_its_kind() -> None:
    found = pieces(ROLE, chunk(tool_calls=[call(0, "call_1", "get", "")]))[1:]
    assert [(piece.kind, piece.weight) for piece in found] == [(Kind.TOOL, 0.0)]


def test_a_token_with_log_probabilities_weighs_one_whatever_its_length() -> None:
    logprobs = {"content": [{"token": "extraordinarily", "logprob": -1}, {"token": "x", "logprob": -2}]}
    assert pieces(ROLE, chunk("extraordinarilyx", choice={"logprobs": logprobs}))[1].weight == 2.0


@pytest.mark.parametrize("kind", ["content", "reasoning_content", "refusal"])
def test_only_heavy_deltas_can_be_cut(kind: str) -> None:
    light, heavy = pieces(ROLE, chunk(**{kind: "x" * int(4 * CUT_FROM_TOKENS)}), chunk(**{kind: LONG}))[1:]
    assert not light.cuttable
    assert heavy.cuttable


def test_one_read_of_many_shapes_keeps_their_order() -> None:
    datas = [
        ROLE,
        chunk(reasoning="a"),
        chunk("b"),
        chunk(annotations=[1]),
        chunk("c"),
        chunk(tool_calls=[call(0, "i", "n", "{}")]),
        STOP,
        DONE,
    ]
    assert said(pieces(*datas)) == datas


def test_a_delta_with_everything_leaves_in_one_order() -> None:
    data = chunk(LONG, reasoning="thought " * 20, refusal="no " * 20, tool_calls=[call(0, "i", "n", '{"a":"%s"}' % LONG)])
    dialect = Chat()
    [piece] = pieces(chunk("x", role="assistant"), data, dialect=dialect)[1:]
    assert piece.kind is Kind.TOOL
    assert said([piece]) == [data]


# Mending: values that are legal nowhere and break clients


def test_missing_index_of_a_choice_is_its_place() -> None:
    data = compact({"id": "x", "choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]})
    assert {index: choice.content for index, choice in meaning(data).choices.items()} == {0: "a", 1: "b"}


@pytest.mark.parametrize("delta", ['"delta":null,', ""])
def test_missing_delta_is_an_empty_one(delta: str) -> None:
    data = '{"choices":[{"index":0,%s"finish_reason":null,"content_filter_results":{"a":1}}]}' % delta
    assert objects(pieces(data))[0]["choices"][0] == {"index": 0, "delta": {}, "finish_reason": None, "content_filter_results": {"a": 1}}


@pytest.mark.parametrize("role", [None, ""])
def test_empty_role_is_dropped(role: str | None) -> None:
    assert objects(pieces(chunk("a", role=role)))[0]["choices"][0]["delta"] == {"content": "a"}


def test_empty_finish_reason_is_null() -> None:
    assert [each["choices"][0]["finish_reason"] for each in objects(pieces(chunk("a", finish=""), chunk("b", finish="")))] == [None, None]


def test_error_null_is_dropped_and_nothing_else() -> None:
    assert said(pieces(ROLE, chunk("a", top={"error": None})))[1] == chunk("a")


def test_json_over_several_lines_goes_out_on_one() -> None:
    pretty = json.dumps(json.loads(chunk("a b")), indent=1)
    found = pieces(ROLE, pretty)[1:]
    assert found[0].data.count(b"\n") == 2
    assert objects(found) == [json.loads(chunk("a b"))]


def test_numbers_that_are_no_json_become_null_and_strings_keep_the_words() -> None:
    logprobs = '{"content":[{"token":"NaN","logprob":-Infinity,"bytes":null,"top_logprobs":[]}]}'
    data = chunk("NaN", choice={"logprobs": "?"}).replace('"?"', logprobs)
    [found] = objects(pieces(ROLE, data)[1:])
    assert found["choices"][0]["delta"]["content"] == "NaN"
    assert found["choices"][0]["logprobs"]["content"][0] == {"token": "NaN", "logprob": None, "bytes": None, "top_logprobs": []}


def test_two_choices_in_one_chunk_become_two_events_and_what_is_said_once_goes_with_the_last() -> None:
    top = {
        "choices": [{"index": 1, "delta": {"content": "B"}}, {"index": 0, "delta": {"content": "A"}}],
        "usage": USAGE,
        "x_groq": {"id": "r"},
    }
    found = objects(pieces(chunk(top=top), dialect=Chat(2)))
    assert [[each["index"] for each in top["choices"]] for top in found] == [[1], [0]]
    assert [top.get("usage") for top in found] == [None, USAGE]
    assert [top.get("x_groq") for top in found] == [None, {"id": "r"}]
    assert len({top["id"] for top in found}) == 1


# Halves of surrogate pairs


def test_half_a_character_waits_for_the_other_half() -> None:
    first, second = '{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}', '{"choices":[{"index":0,"delta":{"content":"\\ude80b"}}]}'
    found = said(pieces(ROLE, first, second)[1:])
    assert [json.loads(data)["choices"][0]["delta"]["content"] for data in found] == ["a", "🚀b"]
    assert "🚀" in found[1]


def test_half_a_character_that_never_finds_the_other_leaves_as_the_escape_that_it_was() -> None:
    found = said(pieces(ROLE, chunk("a\ud83d").encode("ascii", "backslashreplace"), STOP, DONE))
    assert "".join(json.loads(data)["choices"][0]["delta"].get("content") or "" for data in found[:-1]) == "a\ud83d"
    assert any("\\ud83d" in data for data in found)
    assert found[-1] == DONE


def test_half_a_character_does_not_leave_behind_the_finish_reason() -> None:
    found = said(pieces(ROLE, chunk("x"), '{"choices":[{"index":0,"delta":{"content":"a\\ud83d"},"finish_reason":"length"}]}', DONE)[2:])
    assert len(found) == 2
    assert "a\\ud83d" in found[0]


def test_halves_of_two_choices_do_not_meet() -> None:
    def half(index: int, text: str) -> str:
        return '{"choices":[{"index":%d,"delta":{"content":"%s"}}]}' % (index, text)

    got = meaning(ROLE, half(0, "\\ud83d"), half(1, "\\ud83c"), half(0, "\\ude80"), half(1, "\\udf0d"), dialect=Chat(2))
    assert {index: choice.content for index, choice in got.choices.items()} == {0: "🚀", 1: "🌍"}


# Our own events


def test_heartbeat_chunk_has_the_envelope_of_the_stream_and_an_empty_delta() -> None:
    dialect = Chat()
    pieces(ROLE, dialect=dialect)
    beat = dialect.heartbeat("chunk")
    assert beat is not None
    data = json.loads(beat.removeprefix(b"data: "))
    assert beat.endswith(b"\n\n")
    [choice] = data.pop("choices")
    assert data == {key: value for key, value in json.loads(ROLE).items() if key != "choices"}
    assert (choice["index"], choice["delta"], choice["finish_reason"]) == (0, {}, None)


def test_heartbeat_chunk_before_the_first_chunk_has_an_id_of_ours() -> None:
    beat = Chat(1, "chatcmpl-req_1").heartbeat("chunk")
    assert beat is not None
    assert json.loads(beat.removeprefix(b"data: "))["id"] == "chatcmpl-req_1"


@pytest.mark.parametrize("style", ["comment", "native"])
def test_other_heartbeats_are_comments(style: str) -> None:
    assert Chat().heartbeat(style) is None  # type: ignore[arg-type]
