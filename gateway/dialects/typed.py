"""What the protocols of typed events share: Responses and Messages send JSON objects that say their own `type`.

Owns the way of one such event to a piece, splitting included. What the types mean is the dialect's.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from gateway.dialects.base import FAULTS, Dialect
from gateway.dialects.cutting import cuttable
from gateway.dialects.heads import TYPED, Head
from gateway.dialects.pairs import Pairs
from gateway.dialects.reported import reported
from gateway.dialects.text import joins, weigh
from gateway.dialects.withholding import Withholding
from gateway.errors import Failure
from gateway.piece import CUT_FROM_TOKENS, Kind, Piece
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Decoder, Event, render

_IDLE: Final = frozenset({"ping", "keepalive"})  # signs of life can come between two deltas of one text


class Text(NamedTuple):
    """The text that an event goes on with. `place` tells it from other texts of the answer."""

    kind: Kind
    place: tuple[bytes | str | None, ...]
    text: str


class TypedDialect(Dialect):
    """A subclass says what an event is (`understand`), and where its text stands for halves of surrogate pairs."""

    def __init__(self, withholding: Withholding | None = None) -> None:
        """`withholding`: keeps reasoning back."""
        super().__init__()
        self._withholding = withholding
        self._pairs: Pairs[tuple[bytes | str | None, ...]] = Pairs()
        self._bare: dict[tuple[bytes | str | None, ...], tuple[Kind, Event]] = {}  # events to carry the halves that wait

    @abstractmethod
    def understand(self, head: Head, event: Event) -> list[Piece]:
        """The pieces of an event whose head could be read."""

    @abstractmethod
    def text_of(self, kind: str, top: Members) -> Text | None:
        """The text of an event of this type; None where it is no delta with text."""

    @abstractmethod
    def with_text(self, top: Members, text: str, bare: bool) -> Members:
        """The event with another text. bare: with nothing else than its envelope."""

    @abstractmethod
    def own_delta(self, event: Event) -> Piece:
        """A delta that the upstream did not send, as it leaves."""

    def read(self, event: Event) -> list[Piece]:
        if self.ended:
            return []
        data = event.data
        if b"\n" in data:
            data = jsontext.one_line(data)
            event = Event(event.name, data, render(data, event.name))
        try:
            head = None if self._pairs else TYPED.decode(data)
        except (msgspec.DecodeError, RecursionError):
            head = None
        try:
            return self._read_oddly(event) if head is None else self._take(head, event)
        except FAULTS:
            return self.dropped(event)

    def _take(self, head: Head, event: Event) -> list[Piece]:
        return self.understand(head, event) if self._withholding is None else self._withhold(self._withholding, head, event)

    def _read_oddly(self, event: Event) -> list[Piece]:
        """Events that msgspec refuses: NaN, half a surrogate pair, no type; or no JSON at all."""
        data = event.data.strip()
        if data == b"[DONE]":  # of another protocol; some servers send it all the same
            return []
        data = jsontext.strict(data)
        top = jsontext.members(data)
        named = jsontext.value(top.get("type", b"null"))
        kind = named if isinstance(named, str) else (event.name or b"").decode("utf-8", "replace")
        if "type" not in top and "error" in top:
            kind = "error"
        elif "type" not in top:
            self.failure = reported(top)
            if self.failure is not None:
                return []
            if self.is_whole(top):
                return self.read_whole(data)
            if kind:  # said by the event's name only, which not every client looks at
                top = {"type": jsontext.quote(kind), **top}
                data = jsontext.join(top)
        out: list[Piece] = []
        found = self.text_of(kind, top)
        if found is not None:
            joined = self._pairs.join(found.place, found.text)
            if joined != found.text:
                bare = jsontext.join(self.with_text(top, "", bare=True))
                self._bare[found.place] = found.kind, Event(event.name, bare, b"")
                top = self.with_text(top, joined, bare=False)
                data = jsontext.join(top)
        elif kind not in _IDLE:
            out = self.halves_left()
        rest = {name: jsontext.value(top[name]) for name in ("delta", "sequence_number", "logprobs") if name in top}
        return [*out, *self._take(Head(kind, **rest), Event(event.name, data, render(data, event.name)))]

    def is_whole(self, top: Members) -> bool:
        """Whether an object is a whole answer, sent as the one event of a stream."""
        return False

    def read_whole(self, data: bytes) -> list[Piece]:
        """The events that a stream would have brought."""
        made = self.as_stream(b"application/json", data)
        if isinstance(made, Failure):
            self.failure = made
            return []
        return [piece for event in Decoder(len(made)).feed(made) for piece in self.read(event)]

    def halves_left(self) -> list[Piece]:
        """Deltas for the halves that never found their other one: what follows belongs behind them."""
        out = []
        for place, half in self._pairs.take_all():
            kind, event = self._bare[place]
            if kind is Kind.REASONING and self._withholding is not None and self._withholding.quota.exhausted:
                continue
            data = jsontext.join(self.with_text(jsontext.members(event.data), half, bare=True))
            out.append(self.own_delta(Event(event.name, data, render(data, event.name))))
        self._bare.clear()
        return out

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
        self.text_tail = text or self.text_tail
        return piece


def named(value: Any) -> str:
    """The type that an object inside an event says; empty where it is no object or says none."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""
