"""Tool calls: arguments go on as they are; ids, names and indexes are said once and never invented."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dialects.reading import event, meaning, objects, pieces, said
from gateway.dialects import Chat
from gateway.piece import Kind
from support.chunks import DONE, ROLE, STOP, call, chunk, compact


def calls(*deltas: Any) -> list[str]:
    return [ROLE, *(chunk(tool_calls=[delta] if isinstance(delta, dict) else delta) for delta in deltas), chunk(finish="tool_calls"), DONE]


def test_a_call_in_the_usual_pieces_keeps_every_byte() -> None:
    datas = calls(call(0, "call_1", "get", ""), call(0, arguments='{"a"'), call(0, arguments=":1.50}"), call(1, "call_2", "put", "{}"))
    assert said(pieces(*datas)) == datas


@pytest.mark.parametrize("repeated", [{"id": "call_1", "name": "get"}, {"id": "", "name": ""}, {"id": "call_1", "name": ""}])
def test_ids_and_names_that_a_server_repeats_are_said_once(repeated: dict[str, str]) -> None:
    """SDKs add up strings: `getget` is no tool."""
    got = meaning(*calls(call(0, "call_1", "get", '{"a"'), *(call(0, arguments=part, **repeated) for part in (":", "1", "}"))))
    made = got.first.calls[0]
    assert (made.id, made.name, made.arguments, made.id_frames) == ("call_1", "get", '{"a":1}', 1)


@pytest.mark.parametrize(
    "null", [{"id": None, "function": {"name": None, "arguments": "x"}}, {"id": None, "type": None, "function": {"arguments": "x"}}]
)
def test_nulls_in_later_deltas_do_not_matter(null: dict[str, Any]) -> None:
    got = meaning(*calls(call(0, "call_1", "get", ""), {"index": 0, **null}))
    assert (got.first.calls[0].id, got.first.calls[0].name, got.first.calls[0].arguments) == ("call_1", "get", "x")


def test_names_in_parts_are_not_taken_for_repeats() -> None:
    got = meaning(*calls(call(0, "call_1", "get_"), call(0, name="weather"), call(0, arguments="{}")))
    assert got.first.calls[0].name == "get_weather"


A, B = call(0, "a", "get", '{"x":1}'), call(0, "b", "put", '{"y":2}')
ID_ONLY, ARGUMENTS_ONLY = call(0, "b", "put"), call(0, arguments='{"y":2}')


@pytest.mark.parametrize(
    "deltas",
    [
        [[A], [B]],
        [[A, B]],
        [[A], [ID_ONLY], [ARGUMENTS_ONLY]],
        [[A], [call(1, "b", "put", "{")], [call(1, arguments='"y":2}')]],
        [[call(0, "a", "get", "{")], [call(0, "b", "put", "{")], [call(0, "a", None, '"x":1}')], [call(0, "b", None, '"y":2}')]],
        [[A], [call(0, "b", "put", "{")], [call(0, "changed", None, '"y":2}')]],
    ],
    ids=["one after the other", "in one delta", "in fragments", "with their own indexes", "interleaved", "an id that changes"],
)
def test_calls_that_share_an_index_get_one_each(deltas: list[list[Any]]) -> None:
    got = meaning(ROLE, *(chunk(tool_calls=delta) for delta in deltas), STOP, DONE)
    assert {index: (each.id, each.name, each.arguments, each.id_frames) for index, each in got.first.calls.items()} == {
        0: ("a", "get", '{"x":1}', 1),
        1: ("b", "put", '{"y":2}', 1),
    }


def test_a_third_call_finds_the_next_index_free() -> None:
    third = call(1, "c", "del", "[]")
    got = meaning(ROLE, *(chunk(tool_calls=[each]) for each in (A, B, third)), STOP, DONE)
    assert [each.id for _, each in sorted(got.first.calls.items())] == ["a", "b", "c"]


def test_calls_as_an_object_are_a_list_of_one() -> None:
    got = meaning(ROLE, chunk(tool_calls=call(0, "a", "get", "{}")), STOP, DONE)
    assert (got.first.calls[0].id, got.first.calls[0].arguments) == ("a", "{}")


def test_calls_without_index_get_that_of_their_id() -> None:
    got = meaning(
        *calls(call(None, "a", "get", "{"), call(None, "b", "put", "["), call(None, "a", arguments="}"), call(None, "b", arguments="]"))
    )
    assert {index: (made.id, made.arguments) for index, made in got.first.calls.items()} == {0: ("a", "{}"), 1: ("b", "[]")}


def test_calls_without_index_and_id_go_on_with_the_last() -> None:
    got = meaning(*calls(call(None, "a", "get", "{"), call(None, arguments="}"), call(None, "b", "put", "["), call(None, arguments="]")))
    assert {index: (made.id, made.arguments) for index, made in got.first.calls.items()} == {0: ("a", "{}"), 1: ("b", "[]")}


def test_whole_calls_in_one_delta_without_index_are_numbered() -> None:
    got = meaning(*calls([call(None, "a", "get", "{}"), call(None, "b", "put", "[]")]))
    assert {index: (made.id, made.name) for index, made in got.first.calls.items()} == {0: ("a", "get"), 1: ("b", "put")}


def test_arguments_that_are_an_object_become_their_text() -> None:
    data = chunk(tool_calls=[call(0, "a", "get")]).replace(
        '"function":{"name":"get"}', '"function":{"name":"get","arguments":{"n": 1.50, "s":"é"}}'
    )
    got = meaning(ROLE, data)
    assert got.first.calls[0].arguments == '{"n": 1.50, "s":"é"}'


def test_arguments_null_are_empty() -> None:
    assert meaning(*calls({"index": 0, "id": "a", "function": {"name": "get", "arguments": None}})).first.calls[0].arguments == ""


@pytest.mark.parametrize("function", [{"function": None}, {}, {"custom": {"name": "shell", "input": "ls"}}])
def test_a_call_without_a_function_passes(function: dict[str, Any]) -> None:
    dialect = Chat()
    datas = calls({"index": 0, "id": "a", "type": "custom", **function})
    assert said(pieces(*datas, dialect=dialect)) == datas
    assert dialect.failure is None


def test_fields_of_a_call_that_nobody_knows_pass_untouched() -> None:
    datas = calls(call(0, "a", "get", "{}", extra_content={"google": {"thought_signature": "Cs+/="}}))
    assert said(pieces(*datas)) == datas


def test_calls_of_two_choices_are_kept_apart() -> None:
    first = chunk(tool_calls=[call(0, "a", "get", "{")])
    second = chunk(index=1, tool_calls=[call(0, "a", "get", "[")])
    got = meaning(
        ROLE,
        first,
        second,
        chunk(tool_calls=[call(0, arguments="}")]),
        chunk(index=1, tool_calls=[call(0, arguments="]")]),
        dialect=Chat(2),
    )
    assert [choice.calls[0].arguments for choice in got.choices.values()] == ["{}", "[]"]
    assert [choice.calls[0].id for choice in got.choices.values()] == ["a", "a"]


def test_fragments_are_opaque() -> None:
    """Cut inside an escape, complete too early, blanks behind: nothing is unescaped, repaired or decided."""
    fragments = ['{"t":"a\\', "ud83d", "\\ude00", '"}', " ", "\\", '"']
    got = meaning(*calls(call(0, "a", "say", ""), *(call(0, arguments=fragment) for fragment in fragments)))
    assert got.first.calls[0].arguments == "".join(fragments)


def test_a_fragment_is_a_tool_piece_whichever_way_it_is_read() -> None:
    dialect = Chat()
    opened = calls(
        call(0, "a", "get", ""), call(0, arguments="some words"), call(0, arguments="more words", x=1), call(5, arguments="no id at all")
    )
    found = [piece for data in opened[1:-2] for piece in dialect.read(event(data))]
    assert {piece.kind for piece in found} == {Kind.TOOL}
    assert [bool(piece.weight) for piece in found] == [False, True, True, True]


def test_text_and_call_in_one_delta_both_arrive_in_order() -> None:
    data = chunk("let me look", reasoning_content="need data", tool_calls=[call(0, "a", "get", '{"k":1}')])
    assert objects(pieces(ROLE, data))[1] == json.loads(data)


def test_a_mended_call_keeps_the_rest_of_its_chunk() -> None:
    data = compact(
        {
            "id": "x",
            "n": 1.5,
            "choices": [{"index": 0, "delta": {"tool_calls": [{"id": "a", "function": {"name": "get", "arguments": "{}"}, "z": 1}]}}],
        }
    )
    [made] = objects(pieces(data))
    assert made == {
        "id": "x",
        "n": 1.5,
        "choices": [
            {"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get", "arguments": "{}"}, "z": 1}]}}
        ],
    }
