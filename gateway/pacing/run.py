"""Neighbours of one kind that came at one moment, as one piece (see `piece.Run`). Knows nothing of what they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.piece import Kind, Piece, Run


def runs(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same with neighbours joined to runs where they are of one kind, have tokens and need no cut of their own."""
    gathered: list[Piece] = []
    kind = Kind.STRUCTURE
    for piece in pieces:
        # A piece of another type makes its bytes when it leaves (a number that depends on what left before): it is not joined by its bytes.
        light = piece.weight and (isinstance(piece, Run) or (type(piece) is Piece and not piece.cuttable))
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
    offsets, sums = [0], [0.0]
    single = None
    for piece in pieces:
        if piece.joined and len(sums) > 1:  # no border before a piece that goes on with a grapheme
            offset, tokens = offsets.pop(), sums.pop()
        else:
            offset, tokens = offsets[-1], sums[-1]
        if isinstance(piece, Run):
            ends, weights = piece.parts
            offsets += [offset + end for end in ends[1:]]
            sums += [tokens + weight for weight in weights[1:]]
            single = single or piece.single
        else:
            offsets.append(offset + piece.size)
            sums.append(tokens + piece.weight)
    raw = b"".join([piece.data for piece in pieces])
    return Run(pieces[0].kind, raw, offsets, sums, 0, len(sums) - 1, single, pieces[0].joined)
