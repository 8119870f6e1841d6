"""From which place of a stream on a client wants it: after an event, after so much content, after a sequence number.

Fed the entries in order, a place gives back what belongs to the client: nothing up to the place, then everything. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from gateway.dialects.cursors import content_of, rest_of, units
from gateway.journal.entries import event_of, sequence_of, with_number

HIGHEST: Final = 2**53  # whole numbers that JavaScript knows exactly


class Place(ABC):
    """reached: what comes from now on is the client's. name: of what the client gave it in, for errors."""

    __slots__ = ("name", "reached")

    def __init__(self, name: str) -> None:
        self.name = name
        self.reached = False

    @property
    def begins_at(self) -> int:
        """The number of the first entry that it has to be fed."""
        return 1

    @abstractmethod
    def take(self, number: int, entry: bytes) -> bytes:
        """What the client gets of this entry."""


class AfterEvent(Place):
    """`Last-Event-ID`."""

    __slots__ = ("_number",)

    def __init__(self, number: int, name: str = "Last-Event-ID") -> None:
        super().__init__(name)
        self._number = number

    @property
    def begins_at(self) -> int:
        return self._number + 1

    def take(self, number: int, entry: bytes) -> bytes:
        self.reached = number >= self._number
        return entry if number > self._number else b""


class AfterContent(Place):
    """`stream_options.cursor_resume`: the earliest place with so many UTF-16 units of content before it. What is no content and stands
    there (reasoning between two texts) is sent again rather than lost."""

    __slots__ = ("_dialect", "_seen", "_units")

    def __init__(self, count: int, dialect: str, name: str = "stream_options.cursor_resume") -> None:
        super().__init__(name)
        self._units = count
        self._dialect = dialect
        self._seen = 0

    def take(self, number: int, entry: bytes) -> bytes:
        if self.reached:
            return entry
        event = event_of(entry)
        here = units(content_of(self._dialect, event.data))
        before, self._seen = self._seen, self._seen + here
        if self._seen < self._units:
            return b""
        self.reached = True
        if self._seen == self._units:
            return b""
        return with_number(rest_of(self._dialect, event, self._units - before), number)


class AfterSequence(Place):
    """`starting_after` of Responses: events with a higher `sequence_number`."""

    __slots__ = ("_number",)

    def __init__(self, number: int, name: str = "starting_after") -> None:
        super().__init__(name)
        self._number = number

    def take(self, number: int, entry: bytes) -> bytes:
        if self.reached:
            return entry
        sequence = sequence_of(entry)
        if sequence is None or sequence < self._number:
            return b""
        self.reached = True
        return entry if sequence > self._number else b""
