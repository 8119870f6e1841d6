"""A stream's chunks through the chat dialect alone: what a client would make of what comes out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gateway.dialects.base import Dialect
from gateway.dialects.chat import Chat
from gateway.dialects.reforms import Wish
from gateway.piece import Kind, Piece
from gateway.wire.sse import Event
from support.chunks import ROLE, STOP


@dataclass
class Played:
    """out: the bytes. deltas: those of choice 0, in order. kinds: (kind, text) of the pieces with text."""

    out: bytes
    pieces: list[Piece]
    dialect: Dialect
    deltas: list[dict[str, Any]] = field(default_factory=list)
    tops: list[dict[str, Any]] = field(default_factory=list)

    def joined(self, name: str) -> str:
        return "".join(delta[name] for delta in self.deltas if isinstance(delta.get(name), str))

    @property
    def reasoning_kinds(self) -> list[Kind]:
        return [piece.kind for piece in self.pieces if piece.weight]

    def order(self, *names: str) -> list[tuple[str, str]]:
        """(field, text), neighbours of one field joined."""
        out: list[tuple[str, str]] = []
        for delta in self.deltas:
            for name in names:
                text = delta.get(name)
                if isinstance(text, str) and text:
                    if out and out[-1][0] == name:
                        out[-1] = (name, out[-1][1] + text)
                    else:
                        out.append((name, text))
        return out


def play(chunks: Iterable[str], wish: Wish | None = None, *, cut: float | None = None) -> Played:
    """`cut`: each piece is cut into heads of about so many tokens."""
    dialect = Chat(1, "", wish)
    pieces: list[Piece] = []
    raw = b""
    for data in [ROLE, *chunks, "[DONE]"]:
        encoded = data.encode()
        pieces += dialect.read(Event(None, encoded, b"data: " + encoded + b"\n\n"))
    for piece in pieces:
        while cut is not None and piece.weight > cut and (parts := piece.cut(cut)) is not None:
            raw += parts[0].data
            piece = parts[1]
        raw += piece.data
    return read(raw, pieces, dialect)


def read(raw: bytes, pieces: list[Piece], dialect: Dialect) -> Played:
    played = Played(raw, pieces, dialect)
    for event in raw.decode().split("\n\n"):
        if event.startswith("data: {"):
            top = json.loads(event[6:])
            played.tops.append(top)
            played.deltas += [choice["delta"] for choice in top["choices"] if choice["index"] == 0]
    return played


def ending(*chunks: str) -> list[str]:
    return [*chunks, STOP]
