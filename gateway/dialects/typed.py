"""What the protocols of typed events share: Responses and Messages send JSON objects that say their own `type`.

Owns the way of one such event to a piece, splitting included. What the types mean is the dialect's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import msgspec
from msgspec import UNSET

from gateway.dialects.base import CUT_FROM_TOKENS, Dialect
from gateway.dialects.cutting import cuttable
from gateway.dialects.text import joins, weigh
from gateway.dialects.withholding import Withholding
from gateway.piece import Kind, Piece
from gateway.wire import jsontext
from gateway.wire.sse import Event, render


class Head(msgspec.Struct, gc=False):
    """The few members of an event that decide its way; the rest is not built."""

    type: str
    delta: Any = UNSET
    sequence_number: Any = UNSET
    logprobs: Any = UNSET


_DECODER: Final = msgspec.json.Decoder(Head)


class TypedDialect(Dialect):
    """A subclass says what an event is (`understand`) and how a stretch of a delta is rendered (`parts_of`)."""

    def __init__(self, withholding: Withholding | None = None) -> None:
        """`withholding`: keeps reasoning back."""
        super().__init__()
        self._withholding = withholding

    @abstractmethod
    def understand(self, head: Head, event: Event) -> list[Piece]:
        """The pieces of an event whose head could be read."""

    def read(self, event: Event) -> list[Piece]:
        if self.ended:
            return []
        data = event.data
        if b"\n" in data:
            data = jsontext.one_line(data)
            event = Event(event.name, data, render(data, event.name))
        try:
            head = _DECODER.decode(data)
            return self.understand(head, event) if self._withholding is None else self._withhold(self._withholding, head, event)
        except (msgspec.DecodeError, RecursionError):
            return self._read_oddly(event)

    def _read_oddly(self, event: Event) -> list[Piece]:
        """Events that msgspec refuses: NaN, half a surrogate pair, no type; or no JSON at all."""
        data = event.data.strip()
        if data == b"[DONE]":  # of another protocol; some servers send it all the same
            return []
        try:
            data = jsontext.strict(data)
            top = jsontext.members(data)
            named = jsontext.value(top.get("type", b"null"))
        except ValueError:
            return self.dropped(event)
        kind = named if isinstance(named, str) else (event.name or b"").decode("utf-8", "replace")
        if "type" not in top and "error" in top:
            kind = "error"
        number = jsontext.value(top["sequence_number"]) if "sequence_number" in top else UNSET
        delta = jsontext.value(top["delta"]) if "delta" in top else UNSET
        event = Event(event.name, data, render(data, event.name))
        head = Head(kind, delta, number)
        return self.understand(head, event) if self._withholding is None else self._withhold(self._withholding, head, event)

    def _withhold(self, withholding: Withholding, head: Head, event: Event) -> list[Piece]:
        """The event with what may be delivered of it. Reasoning that came is real content, though the client does not see it."""
        before = withholding.quota.withheld
        left = withholding.take(head.type, event)
        self.withheld += withholding.quota.withheld - before
        self.committed |= withholding.quota.exceeded
        if left is None:
            return []
        if left is not event:
            top = jsontext.members(left.data)
            changed = {name: jsontext.value(top[name]) for name in ("delta", "sequence_number") if name in top}
            head = Head(head.type, changed.get("delta", UNSET), changed.get("sequence_number", UNSET), head.logprobs)
        return self.understand(head, left)

    def text_piece(self, kind: Kind, text: str, raw: bytes, parts: Any, tokens: int = 0) -> Piece:
        """A delta with text. `tokens`: how many log-probabilities it carries. `parts`: makes its parts if it must be cut."""
        self.committed = True
        weight = float(tokens) if tokens else weigh(text)
        piece = cuttable(kind, weight, raw, parts) if weight > CUT_FROM_TOKENS else Piece(kind, weight, raw)
        piece.joined = joins(self.text_tail, text)
        self.text_tail = text
        return piece


def borders_of(text: str, tokens: Sequence[str]) -> list[int] | None:
    """The ends of the tokens in the text they make up; None where they do not."""
    return list(accumulate(map(len, tokens))) if "".join(tokens) == text else None
