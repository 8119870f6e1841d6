"""What the embedded upstream says: text as tokens, the same for the same model and seed.

Owns the cutting of text into tokens and the making of text. Knows nothing of dialects or time.
Invariant: the tokens of a text, joined, are the text; no token begins or ends inside a grapheme.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Final, Literal, get_args

import regex

from gateway.simulator import prose

# What a run of tokens is made of. "refusal" is the model's own no, in place of an answer.
Part = Literal["reasoning", "content", "tool", "refusal"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)

# About what byte-pair vocabularies hold: a word of up to 7 letters or 3 digits with the space before it, a run of newlines
# or of indentation; all else, ideographs too, grapheme by grapheme. Class of grapheme -> how many of it make one token.
_GRAPHEME: Final = regex.compile(
    r"(?P<letter>(?=[\p{Latin}\p{Greek}\p{Cyrillic}])\X)|(?P<digit>(?=\p{Nd})\X)"
    r"|(?P<newline>\n)|(?P<space> (?!\p{M}|\u200d))|(?P<other>\X)"
)
_LONGEST: Final = {"letter": 7, "digit": 3, "newline": 4, "space": 8, "other": 1}
# A text's last tokens hold no code block: it would be left open.
_TAIL_TOKENS: Final = 120
_SENTENCES: Final = 4  # to a paragraph
_CODE_BLOCKS: Final = 0.3  # of the gaps between an answer's paragraphs


def tokens_of(text: str) -> tuple[str, ...]:
    """The text in tokens; joined they are the text again."""
    out: list[str] = []
    of, length = "", 0  # the last token's class, and its graphemes of that class
    for match in _GRAPHEME.finditer(text):
        kind, grapheme = str(match.lastgroup), match[0]
        if of == "space" and length == 1 and kind in ("letter", "digit", "other"):
            out[-1] += grapheme  # the space before a word belongs to it
        elif kind == of and length < _LONGEST[kind]:
            out[-1] += grapheme
            length += 1
            continue
        else:
            out.append(grapheme)
        of, length = kind, 1
    return tuple(out)


@lru_cache(maxsize=64)  # texts of up to 100 KiB as tokens; a test run asks for a few dozen
def tokens(part: Part, model: str, seed: str, number: int) -> tuple[str, ...]:
    """`number` tokens of one part of an answer. Pure: the same arguments give the same text on every machine."""
    if number < 1:
        return ()
    chance = random.Random(f"{model}/{seed}/{part}")  # noqa: S311 - made-up prose, not a secret
    out: list[str] = []
    for sentence in _sentences(part, chance):
        if "```" in sentence and len(out) > number - _TAIL_TOKENS:
            sentence = "\n\n"
        out += tokens_of(sentence)
        if len(out) >= number:
            break
    del out[number:]
    if part != "tool":
        out[-1] = "."  # it reads like an end
    return tuple(out)


def plain_words(number: int, seed: str) -> tuple[str, ...]:
    """`number` tokens of letters and spaces, which no shell takes for anything but words."""
    chance = random.Random(f"words/{seed}")  # noqa: S311
    return tuple(" " + chance.choice(prose.WORDS) for _ in range(number))


def _sentences(part: Part, chance: random.Random) -> Iterator[str]:
    """Sentences without end."""
    if part == "tool":
        while True:
            yield chance.choice(prose.FILE)
    if part == "refusal":
        while True:
            yield from (f"{sentence} " for sentence in prose.REFUSAL)
    deck = _deck(prose.REASONING if part == "reasoning" else prose.ANSWER, chance)
    for paragraph in count():
        if part == "reasoning":
            yield ("\n\n" if paragraph else "") + chance.choice(prose.HEADINGS) + "\n\n"
        elif paragraph:
            yield chance.choice(prose.CODE) if chance.random() < _CODE_BLOCKS else "\n\n"
        for position in range(_SENTENCES):
            yield (" " if position else "") + next(deck)


def _deck(sentences: Sequence[str], chance: random.Random) -> Iterator[str]:
    """The sentences without end, each as often as any other."""
    while True:
        yield from chance.sample(sentences, k=len(sentences))
