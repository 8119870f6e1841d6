"""Streams that another process records, read from Redis as they grow.

Owns the reading: one XREAD for all that are followed here. Each follower has a recording of its own, which holds only what it has not taken
yet. Invariants: entries come in order and without a gap, or it is told (`stream_expired`); who records and is dead is told within two
leases (`stream_lost`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.dialects.base import Dialect
from gateway.errors import Failure
from gateway.journal.keys import Claim, key, ms
from gateway.journal.recording import Recording, Refusal
from gateway.journal.shared import FAULTS, Shared, stopped
from gateway.wire.headers import Fields

BLOCK_MS: Final = 50  # within which one that is new joins those that are waited for
FRAMES: Final = 256  # of one stream in one answer
EXPIRED: Final = Failure("stream_expired", "This part of the stream is no longer held. Ask again from the beginning, by a new key.")
LOST: Final = Failure("stream_lost", "The gateway that streamed this answer is gone, and the rest of it too. Ask again, by a new key.")
_MOST: Final = "-18446744073709551615"  # the highest second part of an id: what is greater comes after all of the number before


@dataclass(slots=True)
class _Followed:
    """last: the id after which it is read; None until its beginning was looked up. missed: looks without a lease."""

    recording: Recording
    begins_at: int
    last: str | None = None
    missed: int = 0

    @property
    def over(self) -> bool:
        return self.recording.over or not self.recording.followers


class Elsewhere:
    def __init__(self, loop: asyncio.AbstractEventLoop, shared: Shared, behind_bytes: int) -> None:
        self._loop = loop
        self._shared = shared
        self._behind_bytes = behind_bytes
        self._followed: list[_Followed] = []
        self._any = asyncio.Event()
        self._tasks = [loop.create_task(self._read()), loop.create_task(self._look())]

    def follow(self, claim: Claim, dialect: type[Dialect], begins_at: int) -> Recording:
        """It grows once a follower is attached, from the frame that holds entry `begins_at` on."""
        recording = Recording(claim.name, claim.fingerprint, dialect, claim.uid)
        followed = _Followed(recording, begins_at)

        def changed() -> None:
            if recording.followers and followed not in self._followed and not recording.over:
                self._followed.append(followed)
                self._any.set()

        recording.on_change = changed
        return recording

    async def close(self) -> None:
        await stopped(self._tasks)

    # Reading

    async def _read(self) -> None:
        heard_at = self._loop.time()
        while True:
            self._followed = [each for each in self._followed if not each.over]
            if not self._followed:
                self._any.clear()
                await self._any.wait()
                heard_at = self._loop.time()
            try:
                async with asyncio.timeout(2.0):
                    await self._read_once()
                heard_at = self._loop.time()
                self._shared.well()
            except FAULTS:
                if self._loop.time() - heard_at > self._shared.lease_s:
                    for each in self._followed:
                        _fail(each.recording, LOST)
                await asyncio.sleep(BLOCK_MS / 1000)

    async def _read_once(self) -> None:
        for each in self._followed:
            if each.last is None:
                await self._begin(each)
        wanted: dict[str, list[_Followed]] = {}
        for each in self._followed:
            if each.recording.behind_bytes <= self._behind_bytes:
                wanted.setdefault(key("s", each.recording.uid), []).append(each)
        if not wanted:  # all of them are slow
            await asyncio.sleep(BLOCK_MS / 1000)
            return
        since: dict[Any, Any] = {name: min((each.last or "0-0" for each in group), key=_order) for name, group in wanted.items()}
        answer: Any = await self._shared.redis.xread(since, count=FRAMES, block=BLOCK_MS)
        for name, rows in answer or ():
            for raw_id, fields in ((row[0].decode(), row[1]) for row in rows):
                for each in wanted[name.decode()]:
                    if _order(raw_id) > _order(each.last or "0-0") and not each.recording.over:
                        each.last = raw_id
                        _take(each.recording, raw_id, fields)

    async def _begin(self, each: _Followed) -> None:
        """Find the frame that holds the entry from which on it is wanted."""
        redis, uid = self._shared.redis, each.recording.uid
        await redis.set(key("a", uid), b"1", px=ms(self._shared.presence_s))
        start, each.last = 1, "0-0"
        if each.begins_at > 1:
            found: Any = await redis.xrevrange(key("s", uid), f"{each.begins_at}-0", "-", count=1)
            number = int(found[0][0].partition(b"-")[0]) if found else 0
            if number > 1:
                start, each.last = number, f"{number - 1}{_MOST}"
                head: Any = await redis.xrange(key("s", uid), "0-1", "0-1", count=1)
                if head:
                    _take(each.recording, "0-1", head[0][1])
        each.recording.begin_at(start)
        for follower in each.recording.followers:
            follower.next = start

    # Whether who records it is alive

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._shared.lease_s / 3)
            if not self._followed:
                continue
            looked = list(self._followed)
            pipe = self._shared.redis.pipeline(transaction=False)
            for each in looked:
                pipe.set(key("a", each.recording.uid), b"1", px=ms(self._shared.presence_s))
                pipe.exists(key("l", each.recording.uid))
            try:
                async with asyncio.timeout(1.0):
                    answers = await pipe.execute()
            except FAULTS:
                continue  # who reads sees it too
            for each, alive in zip(looked, answers[1::2], strict=True):
                each.missed = 0 if alive else each.missed + 1
                if each.missed > 1:  # what it wrote last has been read meanwhile
                    _fail(each.recording, LOST)


def _take(recording: Recording, raw_id: str, fields: dict[bytes, bytes]) -> None:
    if b"h" in fields:
        status, head = msgspec.msgpack.decode(fields[b"h"], type=tuple[int, Fields])
        recording.head = status, head
        recording.tell()
    elif b"r" in fields:
        recording.refusal = Refusal(*msgspec.msgpack.decode(fields[b"r"], type=tuple[int, Fields, bytes]))
        recording.tell()
    elif b"x" in fields:
        if int(raw_id.partition("-")[0]) != recording.next:
            _fail(recording, EXPIRED)
            return
        recording.ended = True
        recording.tell()
    else:
        first = int(raw_id.partition("-")[0])
        if first != recording.next:
            _fail(recording, EXPIRED)
            return
        frame = fields[b"e"]
        recording.add([part + b"\n\n" for part in frame.split(b"\n\n")[:-1]], frame)
        recording.trim(0, recording.floor_bytes)


def _fail(recording: Recording, failure: Failure) -> None:
    if not recording.over:
        recording.failure = failure
        recording.tell()


def _order(raw_id: str) -> tuple[int, int]:
    first, _, second = raw_id.partition("-")
    return int(first), int(second)
