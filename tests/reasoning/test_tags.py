"""Tags in text: what is reasoning and what only looks like it, wherever the deltas are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.thinking import TAGS, Scanner, Thinking
from gateway.piece import Kind


def scan(deltas: list[str], **how: object) -> list[tuple[str, str]]:
    """(what, text) of the whole: `r`easoning, `c`ontent and `t`ags, stretches joined."""
    scanner = Scanner(**how)  # type: ignore[arg-type]
    found = [segment for delta in deltas for segment in scanner.feed(delta)] + scanner.flush()
    out: list[tuple[str, str]] = []
    for kind, text, tag in found:
        what = "t" if tag else "r" if kind is Kind.REASONING else "c"
        if out and out[-1][0] == what != "t":
            out[-1] = (what, out[-1][1] + text)
        else:
            out.append((what, text))
    return out


def plain(text: str) -> str:
    """The segments in one line: reasoning in braces, tags left out."""
    return "".join({"c": part, "r": "{" + part + "}", "t": ""}[what] for what, part in scan([text]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>plan</think>\n\nHello", "{plan}\n\nHello"),
        ("<thinking>a</thinking>b<reasoning>c</reasoning>d", "{a}b{c}d"),
        ("\n <THINK>a</Think>b", "\n {a}b"),
        ("Sure. <think>plan</think> there", "Sure. {plan} there"),
        ("one<think>a</think>two", "one{a}two"),
        ("<think></think>x", "x"),
        ("<think>a</think> <think> b</think>c", "{a} { b}c"),
        ("<think>not closed", "{not closed}"),
        ("no <thi and <b>bold</b>", "no <thi and <b>bold</b>"),
        ("a < b and <", "a < b and <"),
        ("<thinker>x", "<thinker>x"),
        ("<think>a</thinking>b</think>c", "{a</thinking>b}c"),
    ],
)
def test_tags_divide_reasoning_from_the_answer(text: str, expected: str) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Write `<think>` first",
        "```\n<think>\nx\n</think>\n```\nand so on",
        "```xml\n<think>a</think>\n``\n<think>b</think>\n```",
        "````md\n```\n<think>a</think>\n```\n````",
        "``a ` <think>``",
        "It goes between <think> tags.",
        'It says "<think>" there',
        "The tag (<think>) opens",
        "Put <think>, then close",
    ],
)
def test_tags_in_code_or_only_spoken_of_are_text(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>use `</think>` here</think>answer", "{use `</think>` here}answer"),
        ("<think>```\n</think>\n``` so</think>answer", "{```\n</think>\n``` so}answer"),
        ('<think>it is "</think>" then</think>answer', '{it is "</think>" then}answer'),
        ('<think>he said "yes"</think>answer', '{he said "yes"}answer'),
        ("<think>outer <think>inner</think> still</think>answer", "{outer <think>inner</think> still}answer"),
        ("<think>\n<think>\nplan</think>answer", "{\n<think>\nplan}answer"),
        ("<think>they want <think> tags</think>answer", "{they want <think> tags}answer"),
        ("<think>a stray ` tick\nb</think>answer", "{a stray ` tick\nb}answer"),
    ],
)
def test_nested_and_quoted_tags_inside_do_not_end_the_reasoning(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_a_code_span_ends_with_its_line_but_a_fence_does_not() -> None:
    assert plain("a stray ` tick\n<think>b</think>c") == "a stray ` tick\n{b}c"
    assert plain("```\n\n<think>b</think>c") == "```\n\n<think>b</think>c"


def test_a_text_that_begins_inside_needs_no_opening_tag() -> None:
    assert scan(["plan</thi", "nk>answer"], inside=True) == [("r", "plan"), ("t", "</think>"), ("c", "answer")]


def test_a_closing_tag_that_nothing_opened_stays_text_and_is_told() -> None:
    scanner = Scanner()
    assert scanner.feed("plan</think>answer") == [(Kind.CONTENT, "plan</think>answer", False)]
    assert scanner.stray


def test_names_of_tags_can_be_chosen() -> None:
    assert scan(["<seed>a</seed>b<think>c"], names=("seed",)) == [("t", "<seed>"), ("r", "a"), ("t", "</seed>"), ("c", "b<think>c")]


def test_without_names_nothing_is_a_tag() -> None:
    assert scan(["<>a</><think>"], names=()) == [("c", "<>a</><think>")]


def test_what_may_be_the_beginning_of_a_tag_is_held_and_nothing_more() -> None:
    scanner = Scanner()
    assert scanner.feed("if a <th") == [(Kind.CONTENT, "if a ", False)]
    assert scanner.feed("e>") == [(Kind.CONTENT, "<the>", False)]
    assert scanner.feed("`<th") == [(Kind.CONTENT, "`<th", False)]  # in code there is no tag to wait for


PIECES = st.sampled_from(
    ["<think>", "</think>", "<thinking>", "</thinking>", "<", "think>", "</", "`", "```", "\n", " ", '"', "word", "é", ".", "<THINK>", "x"]
)


@given(st.lists(PIECES, max_size=30).map("".join), st.lists(st.integers(0, 200), max_size=30), st.booleans())
def test_where_the_text_is_cut_does_not_matter(text: str, cuts: list[int], inside: bool) -> None:
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    deltas = [text[a:b] for a, b in pairwise(borders)]
    assert scan(deltas, inside=inside) == scan(list(text), inside=inside) == scan([text], inside=inside)


@given(st.lists(PIECES, max_size=30))
def test_no_text_is_lost_and_little_is_held(deltas: list[str]) -> None:
    scanner = Scanner()
    fed = came = ""
    for delta in deltas:
        fed += delta
        came += "".join(segment.text for segment in scanner.feed(delta))
        assert fed.startswith(came)
        assert len(fed) - len(came) <= max(len(f"</{name}>") for name in TAGS)
    assert came + "".join(segment.text for segment in scanner.flush()) == fed


@given(st.lists(PIECES, max_size=30), st.data())
def test_looking_only_at_text_that_can_matter_finds_the_same_kinds(deltas: list[str], data: st.DataObject) -> None:
    always, seldom = Scanner(), Thinking()
    before = ""
    for delta in (delta for delta in deltas if delta):
        segments = always.feed(delta)
        expected = segments[-1].kind if segments else Kind.REASONING if always.inside else Kind.CONTENT
        kind = seldom.kind(0, delta, before) if seldom.awake or "<" in delta or "`" in delta else Kind.CONTENT
        if always.inside != seldom.scanner(0).inside:  # blanks before a tag on its line: seen only by the one that sees everything
            return
        assert kind is expected
        before = delta
