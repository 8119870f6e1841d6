"""Light events of one kind that came at one moment, as one piece: a burst of a thousand is one entry of the queue, a frame one cut.

Their bytes stay their own and they are cut only between two of them. Knows nothing of what they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from gateway.piece import Kind, Piece


class Run(Piece):
    """pieces[start:end]; `ends`: where one may stop, as indexes; `sums`: the tokens up to each of those, from the first piece of all."""

    __slots__ = ("_base", "_ends", "_from", "_pieces", "_sums", "_to")

    def __init__(self, pieces: list[Piece], ends: list[int], sums: list[float], first: int, last: int) -> None:
        # From border `first` to border `last`: borders are indexes into `ends`, -1 being the beginning.
        self._pieces, self._ends, self._sums = pieces, ends, sums
        self._from, self._to = first, last
        self._base = sums[first] if first >= 0 else 0.0
        start = ends[first] if first >= 0 else 0
        self.kind = pieces[start].kind
        self.weight = sums[last] - self._base
        self.joined = pieces[start].joined
        self.size = sum(piece.size for piece in pieces[start : ends[last]]) if first < 0 else 0
        self.cut = self._cut if last - first > 1 else None

    @property
    def data(self) -> bytes:  # type: ignore[override]
        start = self._ends[self._from] if self._from >= 0 else 0
        return b"".join([piece.data for piece in self._pieces[start : self._ends[self._to]]])

    def _cut(self, tokens: float) -> tuple[Piece, Piece] | None:
        border = bisect_right(self._sums, self._base + tokens + 1e-9, self._from + 1, self._to) - 1
        border = max(border, self._from + 1)
        if border >= self._to:
            return None
        head = Run(self._pieces, self._ends, self._sums, self._from, border)
        tail = Run(self._pieces, self._ends, self._sums, border, self._to)
        head.size = int(self.size * head.weight / self.weight)  # by weight: what the bound on held bytes needs is about right
        tail.size = self.size - head.size
        return head, tail


def runs(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same with neighbours joined to runs where they are of one kind, have tokens and need no cut of their own."""
    gathered: list[Piece] = []
    kind = Kind.STRUCTURE
    for piece in pieces:
        light = piece.weight and piece.cut is None
        if gathered and not (light and piece.kind is kind):
            yield _run(gathered)
            gathered = []
        if light:
            gathered.append(piece)
            kind = piece.kind
        else:
            yield piece
    if gathered:
        yield _run(gathered)


def _run(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    sums = list(accumulate([piece.weight for piece in pieces]))
    ends = list(range(1, len(pieces) + 1))
    if any(piece.joined for piece in pieces):  # no border before a piece that goes on with a grapheme
        kept = [at for at in range(len(pieces) - 1) if not pieces[at + 1].joined] + [len(pieces) - 1]
        sums, ends = [sums[at] for at in kept], [at + 1 for at in kept]
    return Run(pieces, ends, sums, -1, len(ends) - 1)
