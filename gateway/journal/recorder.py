"""The one who writes a recording: stands where a client would stand, as an ASGI `send`, and goes on when the clients have gone.

Owns the numbers of events, the bounds of one recording, and the grace for clients that may come back. It must not know what the messages
mean. Invariants: what comes is with the followers before `send` returns; while an attached follower is behind by more than
`behind_bytes`, or nobody is there and the recording is full, `send` waits, and with it the upstream; a recording always ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gateway.errors import Failure
from gateway.journal.entries import event_of, numbered
from gateway.journal.memory import Memory
from gateway.journal.recording import Recording, Refusal, size_of
from gateway.wire import headers, jsontext
from gateway.wire.headers import Fields

ABANDONED: Final = Failure("stream_abandoned", "Nobody was reading for resume.grace, so this answer was cut short. Ask again.")
_TOO_LARGE: Final = Failure(
    "upstream_event_too_large", "The upstream answered with something that is no stream and is larger than limits.event_bytes; raise it."
)


ASK_AGAIN_S: Final = 1.0  # between two looks at whether a stream is followed elsewhere


@dataclass(frozen=True, slots=True)
class Bounds:
    """grace_s: how long it goes on with nobody there. stream_bytes: held of one recording. behind_bytes: what a follower may lag behind."""

    grace_s: float
    stream_bytes: int
    behind_bytes: int
    refusal_bytes: int


class Copy(Protocol):
    """Where another process can read it. Told without waiting; a copy that cannot keep up is its own affair."""

    def head(self, status: int, fields: Fields) -> None: ...
    def add(self, first: int, entries: list[bytes]) -> None: ...
    def refused(self, refusal: Refusal) -> None: ...
    def ended(self, next_number: int) -> None: ...
    def is_response(self, response: str) -> None: ...
    async def followed(self) -> bool:
        """Whether somebody follows it elsewhere."""
        ...


class Recorder:
    """fail: how the answer that is recorded is brought to an end; known once it runs. given_up: it was.

    on_response: told the id of a Responses answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, recording: Recording, memory: Memory, bounds: Bounds) -> None:
        self.recording = recording
        self.copy: Copy | None = None
        self.fail: Callable[[Failure], None] = lambda _: None
        self.on_response: Callable[[bytes], None] | None = None
        self._loop = loop
        self._memory = memory
        self._bounds = bounds
        self._comments = b""
        self._gathered: tuple[int, Fields, bytearray] | None = None
        self._room: asyncio.Future[None] | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self.given_up = False
        recording.on_change = self._changed

    # What comes

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._begin(message["status"], list(message["headers"]))
        elif self._gathered is not None:
            self._gather(message.get("body", b""), message.get("more_body", False))
        else:
            if message.get("body"):
                self._frame(message["body"])
            if not message.get("more_body", False):
                self.finish()
        if self._crowded():
            self._room = self._loop.create_future()
            await self._room

    def _begin(self, status: int, fields: Fields) -> None:
        if not 200 <= status < 300 or headers.media_type(fields) != b"text/event-stream":
            self._gathered = status, fields, bytearray()
            return
        self.recording.head = status, fields
        if self.copy is not None:
            self.copy.head(status, fields)
        self.recording.tell()

    def _frame(self, frame: bytes) -> None:
        recording = self.recording
        first = recording.next
        entries, self._comments = numbered(frame, first, self._comments)
        if not entries:
            return
        joined = entries[0] if len(entries) == 1 else b"".join(entries)
        recording.add(entries, joined)
        self._memory.came(recording, size_of(entries))
        if self.copy is not None:
            self.copy.add(first, entries)
        if self.on_response is not None:
            self._look_for_its_id(entries)
        self._make_room()

    def _gather(self, body: bytes, more: bool) -> None:
        assert self._gathered is not None  # noqa: S101  # asked for by `send`
        status, fields, gathered = self._gathered
        gathered += body
        if len(gathered) > self._bounds.refusal_bytes:
            body = self.recording.dialect.error_body(_TOO_LARGE)
            self._refuse(Refusal(_TOO_LARGE.http_status, [(b"content-type", b"application/json")], body))
        elif not more:
            self._refuse(Refusal(status, fields, bytes(gathered)))

    def _refuse(self, refusal: Refusal) -> None:
        """It is no stream: those who wait are told, and the next who asks by this key asks anew."""
        if self.recording.over:
            return
        self.recording.refusal = refusal
        self._memory.drop(self.recording)
        if self.copy is not None:
            self.copy.refused(refusal)
        self._close()

    def finish(self) -> None:
        """Nothing follows. What ended without a word of its own is told to be broken off."""
        recording = self.recording
        if recording.over:
            return
        if recording.head is None:
            self._refuse(Refusal(0, [], b""))
            return
        recording.ended = True
        self._memory.end(recording)
        if self.copy is not None:
            self.copy.ended(recording.next)
        self._close()

    def break_off(self, failure: Failure) -> None:
        """The answer has ended without its last message: a fault of ours, or a process that is told to end at once."""
        recording = self.recording
        if recording.head is not None and not recording.over:
            dialect = recording.dialect()
            for number in {recording.first, recording.next - 1}:
                entry = recording.entry(number)
                for piece in dialect.read(event_of(entry)) if entry is not None else ():
                    _ = piece.data  # numbers are given when an event leaves
            self._frame(dialect.fail(failure).data)
        self.finish()

    def moved(self, uid: str) -> None:
        """Another process records this stream already."""
        self.recording.moved = uid
        self._memory.drop(self.recording)
        self._close()

    def _close(self) -> None:
        """The recording outlives its recorder, and what that knows: the answer's machine, the request and its body."""
        self._cancel_grace()
        self._release()
        self.recording.on_change = _nothing
        self.fail = lambda _: None
        self.recording.tell()

    def _look_for_its_id(self, entries: list[bytes]) -> None:
        for entry in entries:
            if b'"response.created"' in entry and self.on_response is not None:
                found = jsontext.value(event_of(entry).data)
                response = found.get("response") if isinstance(found, dict) else None
                name = response.get("id") if isinstance(response, dict) else None
                if isinstance(name, str):
                    self.on_response(name.encode("utf-8", "replace"))
                self.on_response = None

    # Bounds

    def _make_room(self) -> None:
        recording = self.recording
        floor = recording.floor_bytes if recording.followers or self.copy is None else recording.came_bytes
        self._memory.went(recording, recording.trim(self._bounds.stream_bytes, floor))
        if self._memory.full:
            self._memory.make_room()

    def _crowded(self) -> bool:
        recording = self.recording
        if recording.over or self.given_up:
            return False
        if recording.followers:
            return recording.behind_bytes > self._bounds.behind_bytes
        if self.copy is not None:  # somebody may follow it elsewhere: the oldest goes
            return False
        return recording.held_bytes > self._bounds.stream_bytes or self._memory.full

    def _release(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    # Followers

    def _changed(self) -> None:
        if self._room is not None and not self._crowded():
            self._release()
        if self.recording.over or self.recording.followers:
            self._cancel_grace()
        elif self._grace is None and self._asking is None:
            self._wait_for_somebody(self._bounds.grace_s)

    def _wait_for_somebody(self, grace_s: float) -> None:
        self._grace = self._loop.call_later(grace_s, self._forsaken)

    def _cancel_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def _forsaken(self) -> None:
        self._grace = None
        if self.copy is None:
            self.give_up(ABANDONED)
        else:
            self._asking = self._loop.create_task(self._ask_elsewhere(self.copy))

    async def _ask_elsewhere(self, copy: Copy) -> None:
        followed = await copy.followed()
        self._asking = None
        if self.recording.over or self.recording.followers:
            return
        if followed:
            self._wait_for_somebody(max(self._bounds.grace_s, ASK_AGAIN_S))
        else:
            self.give_up(ABANDONED)

    def give_up(self, failure: Failure) -> None:
        """The answer ends here, with this failure told in it."""
        self.given_up = True
        self._release()
        self.fail(failure)


def _nothing() -> None:
    """There is nobody who would want to know."""
