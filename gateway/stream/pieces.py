"""What the machine does with lists of pieces: count them for a meter, choose what a slow live viewer loses. Pure."""

from __future__ import annotations

from typing import Final

from gateway.dialects.base import structure
from gateway.pacing.clusters import Meter
from gateway.piece import Kind, Piece
from gateway.policy.holding import Releases

_SHEDDABLE: Final = (Kind.CONTENT, Kind.REASONING)  # half of a tool's arguments is worth nothing


def count(meter: Meter, now: float, pieces: list[Piece]) -> bool:
    """Tell a meter of the tokens that passed at one moment, kind by kind. Whether there were any."""
    if len(pieces) == 1:  # as nearly always
        piece = pieces[0]
        if piece.weight:
            meter.add(now, piece.weight, piece.kind)
            return True
        return False
    tokens, kind = 0.0, Kind.STRUCTURE
    any_tokens = False
    for piece in pieces:
        weight = piece.weight
        if weight:
            any_tokens = True
            if piece.kind is not kind and tokens:
                meter.add(now, tokens, kind)
                tokens = 0.0
            kind = piece.kind
            tokens += weight
    if tokens:
        meter.add(now, tokens, kind)
    return any_tokens


def shed(pacer: Releases, now: float, keep_bytes: int) -> float:
    """Let go of the oldest text that is held beyond `keep_bytes`, with a comment in its place. The tokens that went."""
    kept, dropped = newest(pacer.flush(), keep_bytes)
    if dropped:
        pacer.push(now, structure(b": decluster dropped about %d tokens for a client that reads too slowly\n\n" % round(dropped)))
    for piece in kept:
        pacer.push(now, piece)
    return dropped


def newest(pieces: list[Piece], keep_bytes: int) -> tuple[list[Piece], float]:
    """What stays of what is held if the oldest text beyond `keep_bytes` goes, and the tokens that went. What is no text stays."""
    kept: list[Piece] = []
    held, dropped = 0, 0.0
    for piece in reversed(pieces):
        held += piece.size
        excess = min(held - keep_bytes, piece.size)
        if excess <= 0 or piece.kind not in _SHEDDABLE or not piece.weight:
            kept.append(piece)
            continue
        parts = piece.cut(piece.weight * excess / piece.size) if excess < piece.size else None
        if parts is not None:
            kept.append(parts[1])
            dropped += parts[0].weight
        else:
            dropped += piece.weight
    kept.reverse()
    return kept, dropped
