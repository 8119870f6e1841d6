"""Laws of weighing, cutting and joining text."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.text import cut_at, joins, weigh

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
FLAG = "🇫🇷"
UNITS = [
    "a",
    "word",
    " ",
    "\n",
    "\r\n",
    "\r",
    "é",
    "e\u0301",
    "流",
    "ひ",
    "한",
    FAMILY,
    FLAG,
    "👍🏽",
    "क्ष",
    "\u0600",
    "😀",
    "\t",
    ".",
    "ß",
    "\u2028",
]
texts = st.lists(st.sampled_from(UNITS), max_size=30).map("".join)
any_text = st.one_of(texts, st.text(max_size=40))


def graphemes(text: str) -> list[str]:
    return regex.findall(r"\X", text)


def pieces(text: str, tokens: float) -> list[str]:
    out, start = [], 0
    while weigh(text[start:]) > tokens and (index := cut_at(text, tokens, start)):
        out.append(text[start:index])
        start = index
    return [*out, text[start:]]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0.0), ("word", 1.0), ("four four", 2.25), ("流式输出", 4.0), ("été", 1.25), (FAMILY, 6.25), ("\ud83d", 0.75)],
)
def test_text_weighs_a_quarter_of_its_bytes_and_a_token_for_a_wide_character(text: str, tokens: float) -> None:
    assert weigh(text) == tokens


@given(any_text, any_text)
def test_weights_add_up(a: str, b: str) -> None:
    assert weigh(a + b) == pytest.approx(weigh(a) + weigh(b))


@given(any_text, st.floats(0.1, 12.0))
def test_cutting_piece_after_piece_and_joining_is_the_identity(text: str, tokens: float) -> None:
    assert "".join(pieces(text, tokens)) == text


@given(any_text, st.floats(0.1, 12.0))
def test_no_grapheme_is_cut(text: str, tokens: float) -> None:
    assert [g for piece in pieces(text, tokens) for g in graphemes(piece)] == graphemes(text)


@given(any_text, st.floats(0.1, 12.0))
def test_a_head_weighs_no_more_than_asked_unless_it_is_one_grapheme(text: str, tokens: float) -> None:
    for head in pieces(text, tokens)[:-1]:
        assert head
        assert weigh(head) <= tokens + 1e-6 or len(graphemes(head)) == 1


@given(any_text, st.floats(0.1, 12.0))
def test_whatever_has_two_graphemes_can_be_cut(text: str, tokens: float) -> None:
    index = cut_at(text, tokens)
    assert (index > 0) == (len(graphemes(text)) > 1)
    assert index < len(text) or not text


def test_a_cut_falls_before_a_word_and_its_blank_goes_with_it() -> None:
    assert pieces("the parser reads every byte", 3.0) == ["the parser", " reads every", " byte"]


def test_a_run_without_blanks_is_cut_between_graphemes() -> None:
    assert pieces("abcdefghij", 1.0) == ["abcd", "efgh", "ij"]
    assert pieces("流式输出", 2.0) == ["流式", "输出"]
    assert pieces(FLAG * 3, 2.0) == [FLAG] * 3


def test_a_line_end_of_two_characters_stays_whole() -> None:
    assert pieces("abc\r\ndef", 1.0) == ["abc", "\r\nde", "f"]


def test_the_halves_of_a_surrogate_pair_stay_together() -> None:
    assert cut_at("\ud83d\ude00", 0.1) == 0
    assert joins("a\ud83d", "\ude00b")


def test_one_grapheme_has_no_place_to_cut() -> None:
    for text in ("", "a", FAMILY, "e\u0301\u0302\u0303", "\r\n"):
        assert cut_at(text, 1.0) == 0


@given(any_text, any_text)
def test_text_joins_where_it_continues_a_grapheme(before: str, after: str) -> None:
    ends = set()
    total = 0
    for grapheme in graphemes(before + after):
        total += len(grapheme)
        ends.add(total)
    assert joins(before, after) == (bool(before and after) and len(before) not in ends)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("e", "\u0301"),
        ("👩", "\u200d👧"),
        ("👩\u200d", "👧"),
        (FLAG[0], FLAG[1]),
        (FLAG * 40 + FLAG[0], FLAG[1]),
        ("\r", "\n"),
        ("👍", "🏽"),
    ],
)
def test_combining_marks_emoji_flags_and_line_ends_join(before: str, after: str) -> None:
    assert joins(before, after)


@pytest.mark.parametrize(
    ("before", "after"), [("a", "b"), ("a", " b"), (FLAG * 40, FLAG), ("\n", "\r"), ("流", "式"), ("", "a"), ("a", "")]
)
def test_what_begins_anew_does_not_join(before: str, after: str) -> None:
    assert not joins(before, after)


@pytest.mark.parametrize("before", ["", "🇩🇪" * 500, "\U0001f1e9", "\U0001f1e9" * 501])
def test_what_stands_before_the_start_has_no_say_and_so_costs_nothing(before: str) -> None:
    flags = "🇫🇷" * 400
    assert cut_at(before + flags, 9.0, len(before)) == len(before) + cut_at(flags, 9.0)


@pytest.mark.parametrize("length", [63, 64, 65, 127, 128, 500])
def test_a_character_longer_than_the_look_ahead_is_not_cut(length: int) -> None:
    long = "e" + "\u0301" * length
    assert cut_at(long + "xy", 1.0) == len(long)


@pytest.mark.parametrize("flags", [1, 2, 31, 32, 33, 1000, 1001])
def test_half_a_flag_joins_by_the_whole_run(flags: int) -> None:
    assert joins("a" + "\U0001f1e9" * flags, "\U0001f1ea") == (flags % 2 == 1)
