"""Splitting one heavy event into several that say the same.

Owns the order in which the texts of an event leave and the promise that joining what was split gives the original. How an event
looks is the dialect's: it hands in a `Part` for each text, with a function that renders any stretch of it. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from gateway.dialects.text import cut_at, joins, weigh
from gateway.piece import Kind, Piece

# render(start, end, first, last) -> the bytes of an event with text[start:end]; `first` carries what belongs to the event's beginning
# (a role, a tool's id and name), `last` what belongs to its end (finish reason, usage, annotations).
Render = Callable[[int, int, bool, bool], bytes]

# A tail is rendered only if it leaves whole; what the bound on held bytes needs is about its size.
_ENVELOPE_BYTES: Final = 256


class Part:
    """One text of an event. `borders` are the only places where it may be cut (ends of tokens with log-probabilities), else anywhere."""

    __slots__ = ("borders", "kind", "render", "text", "weight")

    def __init__(self, kind: Kind, text: str, render: Render, weight: float | None = None, borders: list[int] | None = None) -> None:
        self.kind = kind
        self.text = text
        self.render = render
        self.weight = weigh(text) if weight is None else weight
        self.borders = borders

    def cut_after(self, tokens: float, start: int) -> int:
        """Where a head of about `tokens` from `start` ends; 0 where there is no place."""
        if self.borders is None:
            return cut_at(self.text, tokens, start)
        at = bisect_right(self.borders, start)
        inner = self.borders[at : at + max(1, int(tokens))]
        for index in reversed(inner):
            if start < index < len(self.text) and not joins(self.text[start:index], self.text[index]):
                return index
        return 0

    def weight_of(self, start: int, end: int) -> float:
        if self.borders is not None:
            return float(bisect_right(self.borders, end) - bisect_right(self.borders, start))
        return weigh(self.text[start:end])


class Stretch(Piece):
    """The rest of an event from one place in one of its parts to its end, or to another place."""

    __slots__ = ("_end", "_first", "_made", "_part", "_parts", "_start")

    def __init__(self, parts: Sequence[Part], part: int, start: int, end: int | None, first: bool, weight: float) -> None:
        # `end` is a place in `part` where this stretch ends; None: it runs to the end of the last part.
        self._parts = parts
        self._part = part
        self._start = start
        self._end = end
        self._first = first
        self._made: bytes | None = None
        self.kind = parts[part].kind
        self.weight = weight
        self.joined = False
        length = len(parts[part].text) - start if end is None else end - start
        self.size = length + sum(len(p.text) for p in parts[part + 1 :] if end is None) + _ENVELOPE_BYTES

    @property
    def cuttable(self) -> bool:
        return True

    def cut(self, tokens: float) -> tuple[Piece, Piece] | None:
        return self._cut(tokens) if self._end is None else self._cut_short(tokens, self._end)

    @property
    def data(self) -> bytes:
        if self._made is None:
            self._made = self._rendered()
        return self._made

    def _rendered(self) -> bytes:
        parts, count = self._parts, len(self._parts)
        here = parts[self._part]
        if self._end is not None:
            return here.render(self._start, self._end, self._first, False)
        out = here.render(self._start, len(here.text), self._first, self._part == count - 1)
        for index in range(self._part + 1, count):
            part = parts[index]
            out += part.render(0, len(part.text), False, index == count - 1)
        return out

    def _cut_short(self, tokens: float, end: int) -> tuple[Piece, Piece] | None:
        """As `_cut`, where it ends inside the event."""
        here = self._parts[self._part]
        at = here.cut_after(tokens, self._start)
        if not self._start < at < end:
            return None
        weight = here.weight_of(self._start, at)
        head = Stretch(self._parts, self._part, self._start, at, self._first, weight)
        return head, Stretch(self._parts, self._part, at, end, False, max(0.0, self.weight - weight))

    def _cut(self, tokens: float) -> tuple[Piece, Piece] | None:
        here = self._parts[self._part]
        later = self._part < len(self._parts) - 1
        rest_here = here.weight_of(self._start, len(here.text)) if later else self.weight
        if later and rest_here <= tokens:
            head = Stretch(self._parts, self._part, self._start, len(here.text), self._first, rest_here)
            return head, Stretch(self._parts, self._part + 1, 0, None, False, max(0.0, self.weight - rest_here))
        at = here.cut_after(tokens, self._start)
        if not at:
            if not later:
                return None
            at = len(here.text)
        weight = here.weight_of(self._start, at)
        head = Stretch(self._parts, self._part, self._start, at, self._first, weight)
        rest = max(0.0, self.weight - weight)
        if at == len(here.text):
            return head, Stretch(self._parts, self._part + 1, 0, None, False, rest)
        return head, Stretch(self._parts, self._part, at, None, False, rest)


def whole(parts: Sequence[Part]) -> Piece:
    """An event as one piece that can be cut, rendered anew."""
    return Stretch(parts, 0, 0, None, True, sum(part.weight for part in parts))


def cuttable(kind: Kind, weight: float, data: bytes, parts: Callable[[], Sequence[Part]]) -> Piece:
    """An event as it came, whose parts are made out only if it must be cut."""

    def cut(tokens: float) -> tuple[Piece, Piece] | None:
        made = parts()
        return whole(made).cut(tokens) if made else None

    return Piece(kind, weight, data, cut)
