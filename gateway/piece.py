"""What flows through a stream: pieces, in order.

A dialect turns upstream events into pieces, the pacer decides when each leaves, and the stream writes their bytes.
This module knows nothing of bytes on the wire, of dialects or of time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """What a piece is made of. The first three are generated text, each with a lag promise of its own."""

    CONTENT = 0
    REASONING = 1
    TOOL = 2
    STRUCTURE = 3  # role chunks, ids, annotations, finish reasons, usage: no text, no lag of its own


# A delta lighter than this no frame needs to cut: half of what 21 ms may hold.
CUT_FROM_TOKENS: Final = 2.0
LABELS = ("content", "reasoning", "tool", "structure")


Cut = Callable[[float], "tuple[Piece, Piece] | None"]


class Piece:
    """One unit of delivery.

    kind: what it is made of.
    weight: tokens, fractional, 0 for what is not generated text. A TOOL piece of weight 0 (a call's id and name) opens its kind.
    data: its bytes on the wire: one or more whole SSE events. May be rendered when it is asked for: `size` tells what it takes.
    size: bytes held by it, for the bounds.
    cut: None where it must stay whole; else `cut(tokens)` gives (head, tail) with head of about that many tokens, at a word or
        grapheme boundary, or None if no boundary was found short of the whole. Concatenated text of the two is the original.
    joined: its text continues the grapheme that the piece before it began: a frame must not begin here if that can be helped.
    """

    __slots__ = ("cut", "data", "joined", "kind", "size", "weight")

    def __init__(
        self,
        kind: Kind,
        weight: float,
        data: bytes,
        cut: Cut | None = None,
        joined: bool = False,
    ) -> None:
        self.kind = kind
        self.weight = weight
        self.data = data
        self.size = len(data)
        self.cut = cut
        self.joined = joined

    def __repr__(self) -> str:  # text stays out of logs, so no data here
        return f"Piece({self.kind.name}, {self.weight:.2f} tokens, {self.size} bytes)"


# Makes one event of that kind and weight a piece that can be cut.
Single = Callable[[Kind, float, bytes], Piece]


class Run(Piece):
    """Light events of one kind that came at one moment, as one piece: a burst of a thousand is one entry of a queue, a frame one slice.

    It is cut only at its borders, `first` to `last` being its own: offsets[k] bytes of `raw` and sums[k] tokens stand before border k.
    single: for an event that is too heavy for a frame by itself; None where none is.
    """

    __slots__ = ("_first", "_last", "_offsets", "_raw", "_sums", "single")

    def __init__(
        self,
        kind: Kind,
        raw: bytes,
        offsets: list[int],
        sums: list[float],
        first: int,
        last: int,
        single: Single | None = None,
        joined: bool = False,
    ) -> None:
        self.kind = kind
        self.weight = sums[last] - sums[first]
        self.size = offsets[last] - offsets[first]
        self.joined = joined
        self._raw, self._offsets, self._sums = raw, offsets, sums
        self._first, self._last = first, last
        self.single = single

    @property
    def data(self) -> bytes:  # type: ignore[override]
        return self._raw[self._offsets[self._first] : self._offsets[self._last]]

    @property
    def cut(self) -> Cut | None:  # type: ignore[override]  # a bound method kept in itself would be left to the garbage collector
        if self._last - self._first > 1:
            return self._cut
        return self._cut_single if self.single is not None and self.weight > CUT_FROM_TOKENS else None

    @property
    def parts(self) -> tuple[list[int], list[float]]:
        """Bytes and tokens up to each border, from the beginning of this run."""
        first, last = self._first, self._last + 1
        offsets, sums = self._offsets, self._sums
        return [at - offsets[first] for at in offsets[first:last]], [n - sums[first] for n in sums[first:last]]

    def take(self, tokens: float) -> Piece | None:
        """About so many tokens from the beginning, one event at least, which leave this run; None if that is all of it.

        As `cut`, for the one who owns the run: its rest is not made anew for each frame.
        """
        first, last, sums, offsets = self._first, self._last, self._sums, self._offsets
        border = bisect_right(sums, sums[first] + tokens + 1e-9, first + 1, last) - 1
        if border <= first:
            border = first + 1
        if border >= last:
            return None
        head = Piece(self.kind, sums[border] - sums[first], self._raw[offsets[first] : offsets[border]], None, self.joined)
        if head.weight > CUT_FROM_TOKENS and border == first + 1 and self.single is not None:
            head.cut = Run(self.kind, head.data, [0, head.size], [0.0, head.weight], 0, 1, self.single).cut
        self._first = border
        self.joined = False
        self.weight = sums[last] - sums[border]
        self.size -= head.size
        return head

    def _cut(self, tokens: float) -> tuple[Piece, Piece] | None:
        first, last, sums = self._first, self._last, self._sums
        border = bisect_right(sums, sums[first] + tokens + 1e-9, first + 1, last) - 1
        if border <= first:
            border = first + 1
        kind, raw, offsets, single = self.kind, self._raw, self._offsets, self.single
        head = Run(kind, raw, offsets, sums, first, border, single, self.joined)
        return head, Run(kind, raw, offsets, sums, border, last, single)

    def _cut_single(self, tokens: float) -> tuple[Piece, Piece] | None:
        data = self.data
        if self.single is None or data.count(b"\n\n") != 1:  # two that belong together
            return None
        way = self.single(self.kind, self.weight, data).cut
        return way(tokens) if way is not None else None
