"""What the embedded upstream says."""

from __future__ import annotations

import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from gateway.simulator import text
from gateway.simulator.scenarios import TABLE


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])) | st.text(alphabet='a1 \n\r\t👩\u200d\u0301🇫🇷️é流한\\"'))
def test_tokens_joined_are_the_text_and_cut_no_grapheme(said: str) -> None:
    tokens = text.tokens_of(said)
    assert "".join(tokens) == said
    ends = {match.end() for match in regex.finditer(r"\X", said)}
    position = 0
    for token in tokens:
        position += len(token)
        assert position in ends


@pytest.mark.parametrize("part", text.PARTS)
@pytest.mark.parametrize("number", [1, 24, 1847])
def test_a_text_has_exactly_the_tokens_asked_for(part: text.Part, number: int) -> None:
    assert len(text.tokens(part, "model", "0", number)) == number


def test_the_same_model_and_seed_say_the_same_and_others_do_not() -> None:
    first = text.tokens("content", "steady", "0", 300)
    text.tokens.cache_clear()
    assert text.tokens("content", "steady", "0", 300) == first
    assert text.tokens("content", "steady", "1", 300) != first
    assert text.tokens("content", "clusters", "0", 300) != first
    assert text.tokens("reasoning", "steady", "0", 300) != first


@pytest.mark.parametrize("scenario", ["smooth-then-clusters", "clusters"])
def test_every_kind_of_character_that_breaks_relays_comes_up(scenario: str) -> None:
    said = "".join(
        "".join(text.tokens(part, scenario, "0", sum(b.tokens for b in TABLE[scenario].bursts if b.kind == part))) for part in text.PARTS
    )
    kinds = {
        "cjk": r"\p{Han}",
        "zwj": r"\p{Extended_Pictographic}\u200d",
        "flag": r"\p{Regional_Indicator}{2}",
        "mark": r"\p{Latin}\p{Mn}",
        "quote": '"',
        "backslash": r"\\",
        "newline": r"\n\n",
        "code": "`",
    }
    assert [name for name, pattern in kinds.items() if not regex.search(pattern, said)] == []


def test_a_token_weighs_about_what_the_vocabularies_make_of_it() -> None:
    tokens = text.tokens("content", "steady", "0", 1000)
    assert 3.0 < len("".join(tokens).encode()) / len(tokens) < 5.0


def test_plain_words_hold_nothing_that_a_shell_would_act_on() -> None:
    assert re.fullmatch(r"[a-z ]+", "".join(text.plain_words(500, "0")))
