"""One stream's machine: upstream bytes in, frames for the client out. Pure: no IO, no clock.

    bytes -> events (wire) -> pieces (dialect) -> when they leave (pacing) -> frames

Owns the phases of a stream and the clocks that belong to it; the relay feeds it, asks for frames and obeys two flags. It must not know
where bytes come from or go to.

Phases: HOLDING, until the first real content: nothing of the upstream's has left, a failure can be answered with a status or another
attempt. OPEN: what comes leaves, paced. SEVERED: its upstream died and it may go on (mendable.py). CLOSING: the last
piece is in the queue. ENDED: the last frame was handed out.

Invariants: what is handed out is a prefix of what came, to the character; after a failure's event nothing follows; a heartbeat stands
only between events.
"""

from __future__ import annotations

from gateway.dialects.base import Dialect
from gateway.errors import Failure
from gateway.pacing.run import runs
from gateway.piece import Kind, Piece
from gateway.stream.clockwork import NEVER
from gateway.stream.endings import EMPTY, INCOMPLETE, SILENT, TOO_LARGE
from gateway.stream.pieces import count, shed
from gateway.stream.reading import Read, read_events, read_whole
from gateway.stream.state import Phase, State
from gateway.wire.sse import COMMENT_HEARTBEAT, Decoder, Event

__all__ = ["Phase", "Stream"]


class Stream(State):
    """One answer on its way."""

    __slots__ = ()

    # What comes in

    def receive(self, now: float, data: bytes) -> None:
        """Bytes of the upstream's body."""
        if not self.wants_upstream:
            return
        decoder, dialect = self._decoder, self.dialect
        whole = decoder.whole(data)
        self._clockwork.hangs(now, decoder.hanging)
        idle = dialect.idle
        single = self.splits  # whose frames are counted in events
        self._heed(now, read_events(dialect, decoder.events_in(whole)) if single else read_whole(dialect, decoder, whole), idle)

    def through(self, now: float, data: bytes) -> bytes | None:
        """`receive` and `due` in one, for reads that bring text and nothing else, as nearly all do: the frame to write now, or nothing yet.

        None where more is to be seen to: it was received like all else, and `due` has what there is."""
        if self.phase is not Phase.OPEN or not self.straight or not self.wants_upstream:
            self.receive(now, data)
            return None
        decoder, dialect, clockwork, pacer = self._decoder, self.dialect, self._clockwork, self.pacer
        whole = decoder.whole(data)
        clockwork.hangs(now, decoder.hanging)
        idle = dialect.idle
        read = read_whole(dialect, decoder, whole)
        pieces = read.pieces
        if not pieces or dialect.idle != idle or dialect.withheld or dialect.settled or dialect.ended or dialect.failure is not None:
            self._heed(now, read, idle)
            return None
        clockwork.heard = now
        clockwork.closing_at = NEVER
        count(self.arrived, now, pieces)
        if self._unpaced is not None and self._unpaced.empty:
            self._unpaced.passed(pieces)
        else:
            for piece in runs(pieces) if len(pieces) > 1 else pieces:
                pacer.push(now, piece)
            pieces = pacer.due(now)
            if not pieces:
                return b""
        if count(self.delivered, now, pieces) and self.first_sent_at is None:
            self.first_sent_at = now
        clockwork.sent = now
        return pieces[0].data if len(pieces) == 1 else b"".join([piece.data for piece in pieces])

    def _heed(self, now: float, read: Read, idle: int) -> None:
        """What was read, and what follows from it. `idle`: the events that said nothing before."""
        dialect = self.dialect
        pieces, events = read
        if self._decoder.progressed and dialect.idle - idle < max(events, 1):
            self._clockwork.heard = now
        self._take(now, pieces)
        if dialect.failure is not None:
            self.fail(now, dialect.failure)
            return
        if dialect.ended:
            self._whole(now)
            return
        if self._decoder.overflowed:
            self.fail(now, TOO_LARGE)
        elif events and dialect.closes:
            if dialect.settled and dialect.committed:
                if not dialect.doubtful:
                    self.pacer.end(now)
                self._clockwork.proven(now, dialect.doubtful)
            else:  # a finish reason that was none
                self._clockwork.closing_at = NEVER

    def upstream_ended(self, now: float, failure: Failure | None) -> None:
        """The upstream's body is over: properly, or by the failure given."""
        if not self.wants_upstream:
            return
        dialect = self.dialect
        for event in self._late_events(now, self._decoder.close(), True):
            self._take(now, dialect.read_last(event))
        if dialect.failure is not None:
            self.fail(now, dialect.failure)
        elif dialect.ended or (dialect.proven and (failure is None or dialect.closes)):
            self._finish(now)
        elif failure is not None:
            self.fail(now, failure)
        else:
            self.fail(now, INCOMPLETE if dialect.committed else EMPTY)

    def fail(self, now: float, failure: Failure) -> None:
        """The stream ends with this failure, told after what is held. Before the first content it is the caller's to answer."""
        if self.phase in (Phase.CLOSING, Phase.ENDED):
            return
        self.failure = failure
        self.wants_upstream = False
        self._clockwork.closing_at = NEVER
        if self.phase is Phase.OPEN:
            self.pacer.push(now, self.dialect.fail(failure))
            self.pacer.end(now)
            self.phase = Phase.CLOSING

    def tell(self, now: float) -> None:
        """Tell the failure in the stream although no content has come: the response had begun with a heartbeat."""
        if self.failure is not None and self.phase is Phase.HOLDING:
            self.pacer.push(now, self.dialect.fail(self.failure))
            self.phase = Phase.CLOSING

    def _take(self, now: float, pieces: list[Piece]) -> None:
        if self.dialect.withheld:
            self.arrived.add(now, self.dialect.withheld, Kind.REASONING)
            self.dialect.withheld = 0.0
        count(self.arrived, now, pieces)
        if self.phase is not Phase.HOLDING:
            for piece in runs(pieces) if len(pieces) > 1 and not self.splits else pieces:
                self.pacer.push(now, piece)
            return
        self._held_back += pieces
        self._held_back_bytes += sum(piece.size for piece in pieces)
        if self.dialect.committed or self._held_back_bytes > self._event_bytes:
            self.phase = Phase.OPEN
            self.first_content_at = now
            self._clockwork.content_came()
            for piece in self._held_back if self.splits else runs(self._held_back):
                self.pacer.push(now, piece)
            self._held_back = []

    def _late_events(self, now: float, events: list[Event], last: bool) -> list[Event]:
        """Those that lacked their blank line. `last`: nothing follows."""
        return events

    def _finish(self, now: float) -> None:
        """Whole, though the dialect's closing line is missing."""
        if not self.dialect.ended:
            self._take(now, self.dialect.close())
        self._whole(now)

    def _whole(self, now: float) -> None:
        self.wants_upstream = False
        self._clockwork.closing_at = NEVER
        if self.phase is Phase.HOLDING:  # an end without any content, or a [DONE] alone
            self.fail(now, EMPTY)
            return
        self.pacer.end(now)
        self.phase = Phase.CLOSING if not self.pacer.empty else Phase.ENDED

    def restart(self, now: float, dialect: Dialect) -> None:
        """Another attempt begins, since nothing of the one that failed has left: what was held back of it goes, heartbeats go on."""
        dialect.follow(self.dialect)
        self.dialect = dialect
        self.failure = None
        self.wants_upstream = True
        self._decoder = Decoder(self._event_bytes, lenient=dialect.closes)
        self._held_back, self._held_back_bytes = [], 0
        self._clockwork.restart(now)

    # What goes out

    def due(self, now: float) -> bytes:
        """The frame to write now, in one write; empty where there is none. Ask when bytes came, at the shared timer and at `wakeup`."""
        if self.phase is not Phase.HOLDING and self.phase is not Phase.ENDED:
            pieces = self.pacer.due(now)
            if pieces:
                if count(self.delivered, now, pieces) and self.first_sent_at is None:
                    self.first_sent_at = now
                if self.phase is Phase.CLOSING and self.pacer.empty:
                    self.phase = Phase.ENDED
                self._clockwork.sent = now
                frame = pieces[0].data if len(pieces) == 1 else b"".join([piece.data for piece in pieces])
                timing, last = self.timing, self.phase is Phase.ENDED
                return frame if timing is None else timing.before(now, self.arrived, self.delivered, last) + frame
        return b""

    def tick(self, now: float) -> bytes:
        """What the slow clocks want at `wakeup`: a heartbeat to write, or nothing. May end the stream (see `failure`)."""
        clockwork = self._clockwork
        if now >= clockwork.hanging_at and self.wants_upstream:
            clockwork.hanging_at = NEVER
            idle = self.dialect.idle
            self._heed(now, read_events(self.dialect, self._late_events(now, self._decoder.settle(), False)), idle)
        if now >= clockwork.closing_at:
            self._finish(now)
        elif self.wants_upstream:
            late = clockwork.late(now)
            if late is not None:
                self.fail(now, late)
            elif clockwork.silent(now):
                if self.dialect.closes and self.dialect.proven and self.dialect.committed:
                    self._finish(now)  # a finish reason that was not believed when it came; by now it may be
                    return b""
                self.fail(now, SILENT)
        if self.phase is Phase.ENDED or not clockwork.heartbeat_due(now):
            return b""
        if self.phase is Phase.HOLDING and self.failure is not None:
            return b""
        self._clockwork.sent = now
        self.heartbeats += 1
        if self.phase is Phase.HOLDING:
            self.heartbeats_before += 1
        return self.dialect.heartbeat(self._heartbeat_style) or COMMENT_HEARTBEAT

    def wakeup(self) -> float:
        """When `tick` is next wanted. It moves on with traffic, so ask again when that time has come."""
        return NEVER if self.phase is Phase.ENDED else self._clockwork.wakeup(self.wants_upstream)

    def waited_for_client(self, now: float) -> None:
        """The client had blocked until now: what it missed is not caught up in a burst."""
        self.pacer.resume(now)
        self._clockwork.sent = now

    def begin(self, now: float) -> None:
        """Open at once: for protocols that are not known here nothing is waited for."""
        self.dialect.committed = True
        self._take(now, [])

    def shed(self, now: float, keep_bytes: int) -> None:
        """For live viewers (`overflow: drop_oldest`): let go of the oldest text beyond `keep_bytes`, and say so in the stream."""
        self.shed_tokens += shed(self.pacer, now, keep_bytes)
        if self.phase is Phase.CLOSING:
            self.pacer.end(now)
