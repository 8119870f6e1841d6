"""One stream as it was sent: its entries, as long as somebody wants them and there is room for them.

Owns what is held and what may go; it must not know who writes it (a recorder, or a reader of another process's recording) or to whom its
followers pass it. Invariants: entries are numbered from 1 without gaps; what is told to followers is told in the turn in which it came;
nothing that an attached follower has not taken is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.dialects.base import Dialect
from gateway.errors import Failure
from gateway.wire.headers import Fields

ENTRY_BYTES: Final = 64  # what an entry takes besides its own bytes
_KEPT: Final = 15 / 16  # of the bound when some has to go: in small batches, not entry by entry


class Listener(Protocol):
    """next: the number of the entry that it wants next. taken_bytes: how far it is, counted as `came_bytes` is."""

    next: int
    taken_bytes: int

    def came(self, first: int, entries: list[bytes], frame: bytes) -> None:
        """Entries came: `frame` is all of them in one."""

    def changed(self) -> None:
        """The head is known, it has ended, it was refused, it moved or failed."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A whole answer in place of a stream."""

    status: int
    fields: Fields
    body: bytes


class Recording:
    """head: of the response, once it has begun. ended: nothing follows. refusal: it never became a stream.

    moved: another process records it, under this id. failure: it cannot be followed any further, and why.
    delivered_bytes: how far the furthest follower ever was.
    """

    __slots__ = (
        "_entries", "came_bytes", "delivered_bytes", "dialect", "ended", "failure", "fingerprint", "first", "followers", "head",
        "held_bytes", "left", "moved", "name", "on_change", "refusal", "uid",
    )  # fmt: skip

    def __init__(self, name: str, fingerprint: str, dialect: type[Dialect], uid: str = "") -> None:
        self.name, self.fingerprint, self.dialect, self.uid = name, fingerprint, dialect, uid
        self.head: tuple[int, Fields] | None = None
        self.refusal: Refusal | None = None
        self.failure: Failure | None = None
        self.moved: str | None = None
        self.ended = False
        self.first = 1
        self.came_bytes = self.held_bytes = self.delivered_bytes = 0
        self.followers: set[Listener] = set()
        self.left = 0  # followers that went before the end
        self.on_change: Callable[[], None] = lambda: None  # told when followers come, go or take: for who writes it
        self._entries: list[bytes] = []

    @property
    def next(self) -> int:
        """The number of the entry that comes next."""
        return self.first + len(self._entries)

    @property
    def over(self) -> bool:
        return self.ended or self.refusal is not None or self.moved is not None or self.failure is not None

    def entry(self, number: int) -> bytes | None:
        return self._entries[number - self.first] if self.first <= number < self.next else None

    def entries(self, start: int, at_most: int) -> list[bytes]:
        return self._entries[start - self.first : start - self.first + at_most]

    # Writing

    def add(self, entries: list[bytes], frame: bytes) -> None:
        first = self.next
        self._entries += entries
        size = size_of(entries)
        self.came_bytes += size
        self.held_bytes += size
        for follower in tuple(self.followers):
            follower.came(first, entries, frame)

    def tell(self) -> None:
        for follower in tuple(self.followers):
            follower.changed()

    def trim(self, bound_bytes: float, floor_bytes: int) -> int:
        """Drop the oldest entries above the bound, as far as the place `floor_bytes` (counted as `came_bytes` is). The bytes gone."""
        if self.held_bytes <= bound_bytes:
            return 0
        held, gone, count = self.held_bytes, self.came_bytes - self.held_bytes, 0
        for entry in self._entries:
            size = len(entry) + ENTRY_BYTES
            if held <= bound_bytes * _KEPT or gone + size > floor_bytes:
                break
            held, gone, count = held - size, gone + size, count + 1
        del self._entries[:count]
        self.first += count
        dropped, self.held_bytes = self.held_bytes - held, held
        return dropped

    def begin_at(self, number: int) -> None:
        """It is read from another process's recording, from this entry on."""
        self.first = number

    # Followers

    @property
    def floor_bytes(self) -> int:
        """Up to where nobody who is here needs it any more."""
        return min((follower.taken_bytes for follower in self.followers), default=self.delivered_bytes)

    @property
    def behind_bytes(self) -> int:
        """How much the slowest of those who are here has not taken."""
        return self.came_bytes - self.floor_bytes if self.followers else 0

    def attach(self, follower: Listener) -> None:
        """It begins at `follower.next`."""
        follower.taken_bytes = self.came_bytes - size_of(self._entries[max(0, follower.next - self.first) :])
        self.followers.add(follower)
        self.on_change()

    def taken(self, follower: Listener) -> None:
        self.delivered_bytes = max(self.delivered_bytes, follower.taken_bytes)
        self.on_change()

    def detach(self, follower: Listener) -> None:
        if follower in self.followers:
            self.followers.discard(follower)
            self.left += not self.over
            self.on_change()


def size_of(entries: list[bytes]) -> int:
    return sum(map(len, entries)) + ENTRY_BYTES * len(entries)
