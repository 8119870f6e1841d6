"""Sequence numbers of a stream to which events are added: given when an event leaves.

Owns the count of what was added, and the pieces that take their number late. It must not know what events mean. Invariant: numbers rise
by one where the upstream's do; as long as nothing was added an event keeps its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from gateway.piece import Cut, Kind, Piece
from gateway.wire import jsontext
from gateway.wire.sse import Event, render

_NUMBER: Final = re.compile(rb'"sequence_number"\s*:\s*(\d+)')


class Numbers:
    """How many events were added so far, and the last number that left."""

    __slots__ = ("added", "last")

    def __init__(self) -> None:
        self.added = 0
        self.last: int | None = None

    def take(self, number: int) -> int:
        self.last = number + self.added
        return self.last

    def another(self) -> int:
        """The number of an event of our own."""
        self.added += 1  # before the first event too: the upstream counts from 0, and so do we
        self.last = 0 if self.last is None else self.last + 1
        return self.last


class Numbered(Piece):
    """An event as it came, numbered when it leaves."""

    __slots__ = ("_event", "_given", "_number", "_numbers")

    def __init__(
        self, kind: Kind, weight: float, event: Event, number: int, numbers: Numbers, cutter: Cut | None = None, joined: bool = False
    ) -> None:
        super().__init__(kind, weight, event.raw, cutter, joined)
        self._event = event
        self._number = number
        self._numbers = numbers
        self._given: bytes | None = None

    @property
    def data(self) -> bytes:
        if self._given is None:
            number = self._numbers.take(self._number)
            self._given = self._event.raw if number == self._number else renumbered(self._event, number)
        return self._given


class Late(Piece):
    """An event of our own, made when it leaves."""

    __slots__ = ("_given", "_make")

    def __init__(self, make: Callable[[], bytes], size: int) -> None:
        super().__init__(Kind.STRUCTURE, 0.0, b"")
        self.size = size
        self._make, self._given = make, b""

    @property
    def data(self) -> bytes:
        self._given = self._given or self._make()
        return self._given


def renumbered(event: Event, number: int) -> bytes:
    """The event with another number. In a string the key's quotes are escaped, so only a member can match; where several do (items can
    have one of their own) the outermost is found by taking the object apart."""
    if len(_NUMBER.findall(event.data)) == 1:
        data = _NUMBER.sub(b'"sequence_number":%d' % number, event.data, count=1)
    else:
        data = jsontext.join({**jsontext.members(event.data), "sequence_number": b"%d" % number})
    return render(data, event.name)
