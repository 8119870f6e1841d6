"""What flows through a stream: pieces, in order.

A dialect turns upstream events into pieces, the pacer decides when each leaves, and the stream writes their bytes.
This module knows nothing of bytes on the wire, of dialects or of time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum


class Kind(IntEnum):
    """What a piece is made of. The first three are generated text, each with a lag promise of its own."""

    CONTENT = 0
    REASONING = 1
    TOOL = 2
    STRUCTURE = 3  # role chunks, ids, annotations, finish reasons, usage: no text, no lag of its own


LABELS = ("content", "reasoning", "tool", "structure")


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
        cut: Callable[[float], tuple[Piece, Piece] | None] | None = None,
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
