"""Owns how much an upstream may send before it must wait, for one stream or one connection (RFC 9113, section 5.2).

Pure. A stream's window is what it may leave with us unread: it is opened again as its reader takes, not at all while the reader
waits. It grows while the reader keeps up and the upstream uses it up fast, so that a burst does not wait for a round trip after
each window; what all streams of a connection have grown by is bounded (`Reserve`).
A connection's window is opened again as soon as bytes have come, read or not: else one slow reader would stall its siblings. That is
safe because the streams' windows bound what can be unread.
"""

from __future__ import annotations

from typing import Final

# A window that is used up faster than in this time holds its stream back wherever the round trip is not much shorter. 256 KiB in a
# second is ten times what the fastest models stream: only bursts and downloads grow.
FAST_S: Final = 1.0


class Reserve:
    """What the streams of one connection may grow by in all."""

    __slots__ = ("left_bytes",)

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes


class Window:
    """size: what the peer may have under way or unread here, at the most. open: what it may still send."""

    __slots__ = ("_first", "_granted_at", "_most", "_owed", "_reserve", "open", "size")

    def __init__(self, size: int, most: int, reserve: Reserve, now: float) -> None:
        """most: what it may grow to."""
        self.size = self.open = self._first = size
        self._most = most
        self._reserve = reserve
        self._owed = 0  # taken by the reader, not yet given back to the peer
        self._granted_at = now

    def taken(self, count: int) -> bool:
        """The reader has taken so many bytes; whether it is time to `grant`: seldom, as each costs both sides a frame."""
        self._owed += count
        return self._owed * 2 >= self.size

    def grant(self, now: float) -> int:
        """By how much to open the peer's window now."""
        increment, self._owed = self._owed, 0
        if now - self._granted_at < FAST_S:
            growth = min(self.size, self._most - self.size, self._reserve.left_bytes)
            self._reserve.left_bytes -= growth
            self.size += growth
            increment += growth
        self._granted_at = now
        self.open += increment
        return increment

    def close(self) -> None:
        """The stream is over: what it grew by is the others' again."""
        self._reserve.left_bytes += self.size - self._first
        self.size = self._first
