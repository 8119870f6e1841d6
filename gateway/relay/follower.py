"""One client of a recorded stream: what the recording holds from its place on, then what comes, in the turn in which it comes.

Owns the client's side only: its place, its heartbeats, its slowness, its end. It must not know who records. Invariants: the response begins
once, with a status that is true; entries leave in order, each once; where the recording cannot go on, an honest error ends the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.dialects import Dialect
from gateway.dialects.base import Style
from gateway.dialects.reported import refused
from gateway.errors import Failure
from gateway.journal.entries import event_of
from gateway.journal.places import Place
from gateway.journal.recording import Recording, size_of
from gateway.relay.alarm import Alarm
from gateway.relay.channel import Send
from gateway.relay.outlet import Outlet
from gateway.settings import Clocks
from gateway.wire.sse import COMMENT_HEARTBEAT, COMMENT_HEARTBEAT_AFTER_ID

ENTRIES_A_WRITE: Final = 256  # of what is caught up on: about 64 KiB, as much as a socket takes at once
EXPIRED: Final = Failure("stream_expired", "This part of the stream is no longer held. Ask again from the beginning, by a new key.")
_SHUTTING_DOWN: Final = Failure(
    "shutting_down", "The gateway is shutting down. Ask again by the same key, from the last event on: another instance goes on."
)
_UNANSWERED: Final = Failure("internal", "The gateway failed before it could answer. Ask again.")


class Follower:
    """`done`: how it went: `whole`, `client_gone`, `moved` (ask where it is now), or a failure's code."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        recording: Recording,
        place: Place | None,
        send: Send,
        *,
        fresh: Callable[[], Dialect],
        clocks: Clocks,
        heartbeat_every: float,
        heartbeat_style: Style,
        request_id: bytes,
    ) -> None:
        """`place`: None is the beginning. `fresh`: a dialect's object that knows nothing yet."""
        self.recording = recording
        self.next = recording.next if place is not None and place.begins_at > recording.next else place.begins_at if place else 1
        self.taken_bytes = 0
        self.heartbeats = 0
        self.done: asyncio.Future[str] = loop.create_future()
        self._loop = loop
        self._place = place
        self._fresh = fresh
        self._outlet = Outlet(loop, send, request_id, self._drained, self.leave)
        self._alarm = Alarm(loop, self._timed)
        self._stall_s = clocks.client_stall
        self._every_s = heartbeat_every
        self._style: Style = "comment" if recording.dialect.name == "responses" else heartbeat_style  # whose events are numbered
        self._sent_at = loop.time()
        self._turn: asyncio.Handle | None = None
        self._opening = self._last = b""
        self._reason = "whole"

    @property
    def status(self) -> int:
        return self._outlet.status

    async def run(self) -> str:
        try:
            self.recording.attach(self)
            self._pump()
            self._arm()
            return await self.done
        finally:
            self._let_go()

    # What comes

    def came(self, first: int, entries: list[bytes], frame: bytes) -> None:
        if first == self.next and self._place is None and not self._outlet.blocked and not self._outlet.over and self._turn is None:
            self.next += len(entries)
            self.taken_bytes += size_of(entries)
            self._opening = self._opening or entries[0]
            self._last = entries[-1]
            self._write(frame)
            self.recording.taken(self)
        else:
            self._pump()

    def changed(self) -> None:
        self._pump()

    def _pump(self) -> None:
        """Write what is there, in pieces of a size; then see to the end."""
        if self.done.done() or self._outlet.blocked or self._outlet.over or self._turn is not None:
            return
        recording = self.recording
        if self.next < recording.first:
            self._fail(EXPIRED)
            return
        if self._place is not None and 1 < self._place.begins_at == self.next:  # right behind an event: nothing is to be looked for
            self._place = None
        entries = recording.entries(self.next, ENTRIES_A_WRITE)
        if recording.head is not None and self._place is None and not self._outlet.status:
            self._begin()
        if entries:
            data = b"".join(entries) if self._place is None else self._from_place(entries)
            self.next += len(entries)
            self.taken_bytes += size_of(entries)
            if data:
                self._write(data)
            recording.taken(self)
        if self._outlet.blocked or self.done.done():
            return
        if self.next < recording.next:  # in the next turn, so that others have theirs
            self._turn = self._loop.call_soon(self._go_on)
        elif recording.over:
            self._end()

    def _go_on(self) -> None:
        self._turn = None
        self._pump()

    def _from_place(self, entries: list[bytes]) -> bytes:
        place = self._place
        assert place is not None  # noqa: S101  # asked for by the caller
        data = b"".join([place.take(number, entry) for number, entry in enumerate(entries, self.next)])
        if place.reached:
            self._place = None
        if data:
            self._opening = self._opening or entries[0]
            self._last = entries[-1]
        return data

    def _begin(self) -> None:
        head = self.recording.head
        if head is not None and not self._outlet.status:
            status, self._outlet.fields = head
            self._outlet.begin(status)

    def _write(self, data: bytes) -> None:
        self._begin()
        self._outlet.frame(data)
        self._sent_at = self._loop.time()
        if self._outlet.blocked:
            self._arm()

    # Ends

    def _end(self) -> None:
        recording = self.recording
        if recording.moved is not None:
            self._settle("moved")
        elif recording.failure is not None:
            self._fail(recording.failure)
        elif recording.refusal is not None:
            status, fields, body = recording.refusal.status, recording.refusal.fields, recording.refusal.body
            if not status:
                self._fail(_UNANSWERED)
            elif self._outlet.status:  # it has begun with a heartbeat: the refusal is told in the stream
                self._fail(refused(status, body))
            else:
                self._reason = "upstream_error"
                self._outlet.relayed(status, fields, body, self._over)
        elif self._place is not None and not self._place.reached:
            name = self._place.name
            self._fail(Failure("invalid_control", f"{name} lies beyond the end of this stream, which has ended.", param=name))
        else:
            self._begin()
            self._outlet.end(self._over)

    def _fail(self, failure: Failure) -> None:
        """The stream ends for this client: with a status if nothing was sent yet, else with an event."""
        self._reason = failure.code
        if not self._outlet.status:
            fields = list(failure.headers)
            self._outlet.whole(failure.http_status, self.recording.dialect.error_body(failure), fields, self._over)
            return
        dialect = self._informed()
        told = dialect.fail(failure).data
        self._outlet.frame(told)
        if not self._outlet.blocked:
            self._outlet.end(self._over)

    def _informed(self) -> Dialect:
        """A dialect that has seen what this client saw first and last: it knows the envelope and the numbers."""
        dialect = self._fresh()
        for entry in dict.fromkeys((self._opening, self._last)):
            if entry:
                for piece in dialect.read(event_of(entry)):
                    _ = piece.data  # numbers are given when an event leaves
        return dialect

    def leave(self) -> None:
        """The client has gone."""
        self._settle("client_gone")

    def shut_down(self) -> None:
        """This process ends before the recording, which is another's."""
        if not self.done.done() and not self._outlet.over:
            self._fail(_SHUTTING_DOWN)

    def _over(self) -> None:
        self._settle(self._reason)

    def _settle(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_result(reason)
        self._let_go()

    def _let_go(self) -> None:
        self._alarm.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self.recording.detach(self)

    # The client's pace

    def _drained(self) -> None:
        self._sent_at = self._loop.time()
        if self._reason != "whole" and not self._outlet.over:  # the error was its last word
            self._outlet.end(self._over)
        else:
            self._pump()

    def _arm(self) -> None:
        if not self.done.done():
            at = self._sent_at + self._every_s
            if self._outlet.blocked and self._stall_s is not None:
                at = min(at, self._outlet.blocked_since + self._stall_s)
            self._alarm.set(at)

    def _timed(self) -> None:
        now = self._loop.time()
        if self._outlet.blocked:
            if self._stall_s is not None and now >= self._outlet.blocked_since + self._stall_s:
                self.leave()
            else:
                self._alarm.set(now + min(self._stall_s or 1.0, 1.0))
            return
        if now >= self._sent_at + self._every_s and not self._outlet.over and self._may_begin:
            self.heartbeats += 1
            self._sent_at = now
            self._begin()
            self._outlet.frame(self._heartbeat())
        self._arm()

    @property
    def _may_begin(self) -> bool:
        """Whether a stream is what will come: of a protocol that is not known here nobody knows before it does."""
        return self.recording.head is not None or self.recording.dialect.closes

    def _heartbeat(self) -> bytes:
        if self._style not in ("comment", "late"):
            own = self._informed().heartbeat(self._style)
            if own is not None:
                return own
        return COMMENT_HEARTBEAT_AFTER_ID if self._last else COMMENT_HEARTBEAT
