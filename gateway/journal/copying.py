"""One recording's copy in Redis: what is written there of its head, its entries and its end, and how long it stands.

Owns the form of a stream's entries there and the bound of one; it must not know how they are sent.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.journal.keys import REMEMBERED_S, Claim, key, ms
from gateway.journal.recording import Refusal
from gateway.wire.headers import Fields

if TYPE_CHECKING:
    from gateway.journal.shared import Shared

FRAME_BYTES: Final = 16 * 2**10  # of a frame there: what is dropped is whole frames
REFUSAL_S: Final = 30  # that a refusal can be read by those who wait for it elsewhere


class SharedCopy:
    """One recording's copy. lost: it is not written to any more."""

    def __init__(self, shared: Shared, claim: Claim, stream_bytes: int) -> None:
        self.claim = claim
        self.lost = False
        self._shared = shared
        self._stream_bytes = stream_bytes
        self._key = key("s", claim.uid)
        self._frames: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._response: str | None = None

    def head(self, status: int, fields: Fields) -> None:
        self._write("XADD", self._key, "0-1", "h", msgspec.msgpack.encode((status, fields)))
        self.renew()

    def add(self, first: int, entries: list[bytes]) -> None:
        frame: list[bytes] = []
        size = 0
        for number, entry in enumerate(entries, first):
            frame.append(entry)
            size += len(entry)
            if size >= FRAME_BYTES or entry is entries[-1]:
                begins = number + 1 - len(frame)
                self._frames.append((begins, size))
                self._shared.write(self, "XADD", self._key, f"{begins}-0", "e", b"".join(frame), size=size)
                self._bytes += size
                frame, size = [], 0
        if self._bytes > self._stream_bytes:
            while self._bytes > self._stream_bytes * 15 // 16 and len(self._frames) > 1:
                self._bytes -= self._frames.popleft()[1]
            self._write("XTRIM", self._key, "MINID", f"{self._frames[0][0]}-0")

    def refused(self, refusal: Refusal) -> None:
        """Those who wait for it elsewhere read it; who asks by its name asks anew."""
        self._write("XADD", self._key, "0-2", "r", msgspec.msgpack.encode((refusal.status, refusal.fields, refusal.body)))
        self._write("PEXPIRE", self._key, ms(REFUSAL_S))
        self._write("DEL", key("k", self.claim.name), key("l", self.claim.uid))
        self._shared.over(self)

    def ended(self, next_number: int) -> None:
        self._write("XADD", self._key, f"{next_number}-1", "x", b"")
        self.renew()
        self._write("DEL", key("l", self.claim.uid))
        self._shared.over(self)

    async def followed(self) -> bool:
        return not self.lost and await self._shared.followed(self.claim.uid)

    def is_response(self, response: str) -> None:
        """Its Responses answer can be asked for by this name."""
        self._response = key("r", response)
        self._write("SET", self._response, self.claim.name, "PX", ms(self._shared.held_s))

    def renew(self) -> None:
        self._write("SET", key("l", self.claim.uid), b"1", "PX", ms(self._shared.lease_s))
        self._write("PEXPIRE", key("k", self.claim.name), ms(self._shared.held_s + REMEMBERED_S))
        self._write("PEXPIRE", self._key, ms(self._shared.held_s))
        if self._response is not None:
            self._write("PEXPIRE", self._response, ms(self._shared.held_s))

    def _write(self, *command: Any) -> None:
        self._shared.write(self, *command)
