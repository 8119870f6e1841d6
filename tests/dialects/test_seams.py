"""A second answer as the continuation of a first: nothing repeated, nothing lost, aligned with what was there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.dialects.seams import LOOKED_AT_CHARS, AfterNumber, OfChoices, OfMessages, Overlap
from gateway.dialects.trails import TEXT_CHARS, Trail
from gateway.stream.sewing import Sewing
from gateway.wire.sse import Event, render
from support.chunks import ROLE, STOP, call, chunk


def event(data: str) -> Event:
    return Event(None, data.encode(), render(data.encode()))


def trail_of(*datas: str, tags: tuple[str, ...] = ("think",)) -> Trail:
    trail = Trail(tags)
    for data in datas:
        trail.note(event(data))
    return trail


def joined(before: str, *after: str) -> str:
    overlap = Overlap(before)
    return before + "".join(map(overlap.feed, after)) + overlap.rest()


# Overlap


@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        ("The quick brown fox", [" jumps", " over"], "The quick brown fox jumps over"),
        ("The quick brown fox", ["quick brown fox", " jumps"], "The quick brown fox jumps"),
        ("The quick brown fox", ["The ", "quick brown ", "fox jumps"], "The quick brown fox jumps"),
        ("Hel", ["Hello", " there"], "Hello there"),
        ("ha ha ", ["ha ha"], "ha ha ha ha"),
        ("a, b, ", ["a, c"], "a, b, a, c"),
        ("The quick brown fox", ["The quick brown dog"], "The quick brown foxThe quick brown dog"),
        ("The quick brown fox", ["The quick"], "The quick brown foxThe quick"),
        ("x" * 30, ["y"], "x" * 30 + "y"),
        ("A rule:\n" + "-" * 40, ["-" * 16] * 3 + ["\nEnd"], "A rule:\n" + "-" * 88 + "\nEnd"),
        ("if a:\n" + " " * 16, [" " * 12, "b()"], "if a:\n" + " " * 28 + "b()"),
        ("data: 0, 0, 0, 0, 0, ", ["0, 0, 0, 0, 0, ", "1"], "data: 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1"),
        ("one two three four", [], "one two three four"),
    ],
)
def test_a_repetition_is_taken_out_and_chance_is_not(before: str, after: list[str], whole: str) -> None:
    assert joined(before, *after) == whole


@given(some.text("ab cé\U0001f600", min_size=13, max_size=60), some.text("xyz", max_size=20), some.integers(12, 60), some.integers(1, 5))
def test_however_it_is_cut_a_long_repetition_is_found(before: str, new: str, length: int, step: int) -> None:
    repeated = before[-min(length, len(before)) :] + new
    parts = [repeated[at : at + step] for at in range(0, len(repeated), step)]
    assert joined(before, *parts) == joined(before, repeated)
    assert joined(before, *parts).startswith(before)
    assert joined(before, *parts).endswith(new)


@given(some.text(max_size=40), some.lists(some.text(max_size=8), max_size=8))
def test_what_comes_out_is_an_end_of_what_came(before: str, after: list[str]) -> None:
    assert "".join(after).endswith(joined(before, *after)[len(before) :])


def test_an_answer_said_again_from_its_beginning_is_found_however_long_it_is() -> None:
    before = "".join(f"line {number}\n" for number in range(5_000))
    assert len(before) > LOOKED_AT_CHARS
    assert joined(before, *[(before + "the end")[at : at + 16] for at in range(0, len(before) + 7, 16)]) == before + "the end"
    assert joined(before, before[:30_000], "otherwise") == before + before[:30_000] + "otherwise"


def test_a_large_answer_that_repeats_itself_costs_little() -> None:
    before = "word " * 100_000
    assert joined(before, *["other "] * 100) == before + "other " * 100


# Where one may go on


@pytest.mark.parametrize(
    ("datas", "may"),
    [
        ([ROLE, chunk("Hello")], True),
        ([ROLE], False),
        ([chunk(reasoning_content="hm"), chunk("Hello")], True),
        ([chunk("Hello"), chunk(reasoning_content="hm")], False),
        ([chunk(reasoning_content="hm")], False),
        ([chunk("Hello"), chunk(tool_calls=[call(0, "c", "f", "{")])], False),
        ([chunk("Hello"), chunk(refusal="no")], False),
        ([chunk("Hello"), chunk(audio={"id": "a"})], False),
        ([chunk("Hello"), chunk("World", index=1)], False),
        ([chunk("Hello"), STOP], False),
        ([chunk("<think>so"), chunk(" far")], False),
        ([chunk("<think>so</think>far")], True),
        ([json.dumps({"choices": [{"index": 0, "text": "Hello", "finish_reason": None}]})], True),
        ([chunk([{"type": "text", "text": "x"}])], False),
    ],
)
def test_a_chat_may_be_gone_on_with_in_plain_text_only(datas: list[str], may: bool) -> None:
    assert trail_of(*datas).may_continue == may


def typed(**members: Any) -> str:
    return json.dumps(members)


TEXT_BLOCK = typed(type="content_block_start", index=0, content_block={"type": "text", "text": ""})


def say(text: str, index: int = 0) -> str:
    return typed(type="content_block_delta", index=index, delta={"type": "text_delta", "text": text})


@pytest.mark.parametrize(
    ("datas", "may"),
    [
        ([TEXT_BLOCK, say("Hello")], True),
        ([TEXT_BLOCK], False),
        ([TEXT_BLOCK, say("Hello"), typed(type="content_block_stop", index=0)], False),
        ([typed(type="content_block_start", index=0, content_block={"type": "thinking", "thinking": ""})], False),
        (
            [
                TEXT_BLOCK,
                say("Hello"),
                typed(type="content_block_start", index=1, content_block={"type": "tool_use", "id": "t", "name": "f"}),
            ],
            False,
        ),
        ([TEXT_BLOCK, say("a"), typed(type="content_block_delta", index=0, delta={"type": "citations_delta", "citation": {}})], False),
    ],
)
def test_messages_may_be_gone_on_with_in_their_one_text_block(datas: list[str], may: bool) -> None:
    assert trail_of(*datas).may_continue == may


def test_an_answer_too_large_to_be_sent_again_is_not() -> None:
    assert not trail_of(chunk("x" * (TEXT_CHARS + 1))).may_continue


# Alignment


def through(seam: Any, *datas: str) -> list[Any]:
    out = [each for data in datas for each in seam.take(event(data))]
    return [each.data.decode() if each.data == b"[DONE]" else json.loads(each.data) for each in out]


def test_chunks_keep_the_first_id_and_lose_role_and_reasoning() -> None:
    trail = trail_of(ROLE, chunk("The quick brown"))
    other = {"id": "chatcmpl-other", "created": 9}
    out = through(
        OfChoices(trail),
        chunk("", role="assistant", top=other),
        chunk(reasoning_content="again", top=other),
        chunk(" fox", top=other),
        chunk(finish="stop", top=other),
        "[DONE]",
    )
    assert [each["choices"][0] for each in out[:-1]] == [
        {"index": 0, "delta": {"content": " fox"}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": "stop"},
    ]
    assert {(each["id"], each["created"]) for each in out[:-1]} == {("chatcmpl-t1", 1700000000)}
    assert out[-1] == "[DONE]"


def test_what_waits_to_be_compared_comes_before_the_finish() -> None:
    out = through(OfChoices(trail_of(chunk("The quick brown fox"))), chunk("The quick"), STOP)
    assert [each["choices"][0]["delta"].get("content") for each in out] == ["The quick", None]
    assert out[1]["choices"][0]["finish_reason"] == "stop"


def test_what_waits_to_be_compared_is_not_said_when_this_upstream_dies_too() -> None:
    seam = OfChoices(trail_of(chunk("The quick brown fox")))
    assert through(seam, chunk("The quick"), '{"error":{"message":"no"}}') == [{"error": {"message": "no"}}]
    cut = event('{"choices":[{"del')
    assert OfChoices(trail_of(chunk("The quick brown fox"))).take(cut) == seam.take(cut) == [cut]


def test_a_call_behind_the_seam_passes() -> None:
    out = through(OfChoices(trail_of(chunk("Let me look. "))), chunk(tool_calls=[call(0, "c", "f", "{}")]))
    assert out[0]["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "f"


def test_legacy_completions_go_on_in_their_text() -> None:
    def legacy(text: str, finish: str | None = None) -> str:
        return json.dumps({"id": "x", "choices": [{"index": 0, "text": text, "finish_reason": finish}]})

    out = through(OfChoices(trail_of(legacy("One two three four five"))), legacy("three four five"), legacy(" six"), legacy("", "stop"))
    assert [each["choices"][0]["text"] for each in out] == [" six", ""]
    assert out[-1]["choices"][0]["finish_reason"] == "stop"


def test_messages_go_on_in_the_open_block_and_number_what_follows() -> None:
    trail = trail_of(typed(type="content_block_start", index=1, content_block={"type": "text", "text": ""}), say("Once upon a time ", 1))
    out = through(
        OfMessages(trail),
        typed(type="message_start", message={"id": "m2"}),
        typed(type="content_block_start", index=0, content_block={"type": "thinking", "thinking": ""}),
        typed(type="content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "hm"}),
        typed(type="content_block_stop", index=0),
        typed(type="content_block_start", index=1, content_block={"type": "text", "text": ""}),
        say(" there was", 1),
        typed(type="content_block_stop", index=1),
        typed(type="content_block_start", index=2, content_block={"type": "tool_use", "id": "t", "name": "f", "input": {}}),
        typed(type="content_block_stop", index=2),
        typed(type="message_delta", delta={"stop_reason": "tool_use"}),
        typed(type="message_stop"),
    )
    assert [(each["type"], each.get("index")) for each in out] == [
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("content_block_start", 2),
        ("content_block_stop", 2),
        ("message_delta", None),
        ("message_stop", None),
    ]
    assert out[0]["delta"]["text"] == "there was"  # the blank was there already


def test_events_that_were_there_are_dropped_by_their_number() -> None:
    out = through(AfterNumber(4), typed(type="a", sequence_number=4), typed(type="b", sequence_number=5), typed(type="c"))
    assert [each["type"] for each in out] == ["b", "c"]


ODD = [
    '{"choices":[{"index":0,"delta":"x"}]}', '{"choices":[{"index":0,"delta":[1]}]}', '{"choices":{"index":0}}',
    typed(type="content_block_start", index="0", content_block={"type": "text", "text": ""}),
    typed(type="content_block_start", index=0, content_block="x"), typed(type="content_block_start", index=0, content_block={"type": "text", "text": ["a"]}),
    typed(type="content_block_delta", index=0, delta="x"),
]  # fmt: skip


@pytest.mark.parametrize("data", ODD)
def test_an_answer_with_members_of_odd_types_is_not_gone_on_with(data: str) -> None:
    trail = trail_of(data, say("text") if "block" in data else '{"choices":[{"index":0,"delta":{"content":"text"}}]}')
    assert not trail.may_continue


@pytest.mark.parametrize("data", [*ODD, "1", "null", '"x"', "[1]", typed(type="content_block_delta", index=None, delta={})])
@pytest.mark.parametrize("seam", [OfChoices, OfMessages])
def test_behind_a_seam_events_of_odd_types_are_left_to_the_dialect(seam: Any, data: str) -> None:
    sewing = Sewing(Trail())
    sewing.begin(seam(trail_of(say("text"))), b"")
    assert len(sewing.take([event(data)])) <= 1
