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
LABELS: Final = ("content", "reasoning", "tool", "structure")


Cut = Callable[[float], "tuple[Piece, Piece] | None"]


class Piece:
    """One unit of delivery.

    kind: what it is made of.
    weight: tokens, fractional, 0 for what is not generated text. A TOOL piece of weight 0 (a call's id and name) opens its kind.
    data: its bytes on the wire: one or more whole SSE events. May be rendered when it is asked for: `size` tells what it takes.
    size: bytes held by it, for the bounds.
    cuttable: whether it may be cut; else it must stay whole.
    joined: its text continues the grapheme that the piece before it began: a frame must not begin here if that can be helped.
    """

    __slots__ = ("_cutter", "_data", "joined", "kind", "size", "weight")

    def __init__(
        self,
        kind: Kind,
        weight: float,
        data: bytes,
        cutter: Cut | None = None,
        joined: bool = False,
    ) -> None:
        self.kind = kind
        self.weight = weight
        self._data = data
        self.size = len(data)
        self._cutter = cutter
        self.joined = joined

    @property
    def data(self) -> bytes:
        return self._data

    @property
    def cuttable(self) -> bool:
        return self._cutter is not None

    def cut(self, tokens: float) -> tuple[Piece, Piece] | None:
        """(head, tail) with a head of about so many tokens, at a word or grapheme boundary; None if there is none short of the whole.

        The concatenated text of the two is the original."""
        return None if self._cutter is None else self._cutter(tokens)

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
    def data(self) -> bytes:
        return self._raw[self._offsets[self._first] : self._offsets[self._last]]

    @property
    def cuttable(self) -> bool:
        return self._last - self._first > 1 or (self.single is not None and self.weight > CUT_FROM_TOKENS)

    def cut(self, tokens: float) -> tuple[Piece, Piece] | None:
        if self._last - self._first > 1:
            return self._halves(tokens)
        return self._cut_single(tokens) if self.cuttable else None

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
        weight = sums[border] - sums[first]
        data = self._raw[offsets[first] : offsets[border]]
        cutter = None
        if weight > CUT_FROM_TOKENS and border == first + 1 and self.single is not None:
            cutter = Run(self.kind, data, [0, len(data)], [0.0, weight], 0, 1, self.single).cut
        head = Piece(self.kind, weight, data, cutter, self.joined)
        self._first = border
        self.joined = False
        self.weight = sums[last] - sums[border]
        self.size -= head.size
        return head

    def _halves(self, tokens: float) -> tuple[Piece, Piece]:
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
        return self.single(self.kind, self.weight, data).cut(tokens)
