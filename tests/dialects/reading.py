"""Events through one dialect, without a stream around it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gateway.dialects import Chat, Dialect
from gateway.piece import Kind, Piece
from gateway.wire.sse import Event
from support import sse
from support.chunks import DONE, Collected, collect


def event(data: str | bytes, name: bytes | None = None) -> Event:
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return Event(name, raw, (b"event: " + name + b"\n" if name else b"") + b"data: " + raw + b"\n\n")


def pieces(*datas: str | bytes, dialect: Dialect | None = None) -> list[Piece]:
    reader = dialect or Chat()
    return [piece for data in datas for piece in reader.read(event(data))]


def said(found: Sequence[Piece]) -> list[str]:
    """The data of the events of these pieces."""
    events, comments, rest = sse.read(b"".join(piece.data for piece in found))
    assert not comments
    assert not rest
    return [each.data for each in events]


def objects(found: Sequence[Piece]) -> list[Any]:
    return [json.loads(data) for data in said(found) if data != DONE]


def meaning(*datas: str | bytes, dialect: Dialect | None = None) -> Collected:
    return collect(said(pieces(*datas, dialect=dialect)))


def in_pieces(piece: Piece, tokens: float) -> list[Piece]:
    """Cut as small as `tokens` says, as far as it can be cut."""
    out = []
    while piece.weight > tokens:
        parts = piece.cut(tokens)
        if parts is None:
            break
        head, piece = parts
        out.append(head)
    return [*out, piece]


def kinds(found: Sequence[Piece]) -> list[Kind]:
    return [piece.kind for piece in found]
