"""Generated text as the eye and the pacer see it: how many tokens it weighs, where it may be cut, where it continues.

Owns the estimate of a text's tokens and the boundaries at which a delta may be split. Knows nothing of JSON, events or time.
Invariants: the two sides of a cut concatenate to the original; no cut falls inside a grapheme cluster (UAX 29: combining
sequences, ZWJ emoji, flags, CRLF) or a surrogate pair; the cost is linear in the tokens asked for, not in the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import regex

BYTES_A_TOKEN: Final = 4.0  # UTF-8 bytes of Latin text in one token: prose 4.2 to 4.6, code 3.2 to 3.8 with current vocabularies
_CONTEXT: Final = 64  # characters looked back at for a grapheme that began earlier: the longest emoji sequences have 10 to 35

# One character, about one token: CJK, kana, Hangul, full-width forms, and emoji with their companions in the higher planes.
_WIDE: Final = re.compile("[\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60\U0001f000-\U0003ffff]")
_GRAPHEME: Final = regex.compile(r"\X")
_REGIONAL: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_BLANKS: Final = (" ", "\n", "\t")
_FIRST_EXTENDING: Final = "\u0300"  # no character below it continues a grapheme, but for LF after CR
_FIRST_PREPENDING: Final = "\u0600"  # and none below it takes the next character into its own, nor does any that is wide
_IDEOGRAPHS: Final = ("\u3400", "\u9fff")  # which continue nothing either


def weigh(text: str) -> float:
    """Estimated tokens: a quarter of the UTF-8 bytes, and one for each wide character; 0.0 for the empty string.

    A short delta is not rounded up to one token: over a burst of one-token events the estimate comes out 6 to 10 % above their number as it
    is, and a frame is judged by the amount of text that appears at once, whichever events it came in.
    """
    if text.isascii():
        return len(text) / BYTES_A_TOKEN
    narrow, wide = _WIDE.subn("", text)
    return wide + len(narrow.encode("utf-8", "surrogatepass")) / BYTES_A_TOKEN


def cut_at(text: str, tokens: float, start: int = 0) -> int:
    """Where to cut so that `text[start:index]` weighs about `tokens`, and not more if that is possible.

    start: where the text still to be cut begins, itself a boundary; cutting on by `start` spares copying the rest each time.
    Returns an index with start < index < len(text): at a word's beginning, its blank staying with it, else between two
    graphemes; 0 where what is left is one grapheme or less. To know the rest's weight, subtract; do not weigh it again.
    """
    size = len(text)
    if size - start < 2:
        return 0
    limit = min(max(_reach(text, tokens, start), start + 1), size - 1)
    least = start + (limit - start + 1) // 2  # a head shorter than half of what was asked is not "about" so much
    window = text[start : limit + 1]
    if window.isascii():
        word = max(text.rfind(blank, max(least, start + 1), limit + 1) for blank in _BLANKS)
        index = word if word > start else limit
        if text[index] != "\n" or text[index - 1] != "\r":
            return index
        if index - 1 > start:
            return index - 1
    return _cut_between_graphemes(text, start, limit, least)


def borders_of(text: str, tokens: Sequence[Any]) -> list[int] | None:
    """The ends of the tokens in the text they make up; None where they do not."""
    if not all(isinstance(token, str) for token in tokens) or "".join(tokens) != text:
        return None
    return list(accumulate(map(len, tokens)))


def joins(before: str, after: str) -> bool:
    """Whether `after` continues the grapheme at the end of `before`, so that the two should be seen together."""
    if not before or not after:
        return False
    last, first = before[-1], after[0]
    if (first < _FIRST_EXTENDING or _IDEOGRAPHS[0] <= first <= _IDEOGRAPHS[1]) and (last < _FIRST_PREPENDING or _WIDE.match(last)):
        return first == "\n" and last == "\r"
    return _continues(before, first)


def _reach(text: str, tokens: float, start: int) -> int:
    """The furthest index up to which `text[start:index]` weighs at most `tokens`."""
    window = text[start : start + max(0, int(tokens * BYTES_A_TOKEN + 1e-6))]
    if window.isascii():
        return start + len(window)
    weight = 0.0
    for offset, character in enumerate(window):
        weight += weigh(character)
        if weight > tokens + 1e-6:
            return start + offset
    return start + len(window)


def _cut_between_graphemes(text: str, start: int, limit: int, least: int) -> int:
    """The last word that begins in `least..limit` at a boundary, else the last boundary up to limit, else the first after it."""
    boundary = word = 0
    end = start
    while (end := _end_of_grapheme(text, end)) < len(text):
        if _is_pair(text[end - 1], text[end]):
            continue
        if end > limit:
            if not boundary:
                boundary = end
            break
        boundary = end
        if end >= least and text[end] in _BLANKS:
            word = end
    return word or boundary


def _end_of_grapheme(text: str, start: int) -> int:
    """Where the grapheme that begins at `start` ends. It is looked for in a slice: for a flag the expression counts back to the beginning
    of what it is given, and `start` is a boundary, so nothing before it has a say."""
    reach = _CONTEXT
    while True:
        found = _GRAPHEME.match(text[start : start + reach])
        end = start + (found.end() if found else 1)
        if end < start + reach or end >= len(text):
            return end
        reach *= 2  # it fills the slice: it may go on


def _continues(before: str, first: str) -> bool:
    if _is_pair(before[-1], first):
        return True
    if _is_regional(first):
        # Flags are pairs of regional indicators: only the parity of the whole run tells.
        run = len(before) - len(before.rstrip(_REGIONAL))
        if run:
            return run % 2 == 1
    tail = before[-_CONTEXT:]
    start = 0
    for match in _GRAPHEME.finditer(tail + first):
        start = match.start()
    return start < len(tail)


def _is_regional(character: str) -> bool:
    return _REGIONAL[0] <= character <= _REGIONAL[-1]


def _is_pair(high: str, low: str) -> bool:
    """JSON escapes can leave the halves of a surrogate pair in two deltas, and so in a Python string."""
    return 0xD800 <= ord(high) <= 0xDBFF and 0xDC00 <= ord(low) <= 0xDFFF
