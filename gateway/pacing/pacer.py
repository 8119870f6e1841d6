"""When each piece of a stream leaves.

Owns the release of what is held, frame by frame. Knows nothing of bytes, dialects, clocks or sockets: `now` is passed in,
in seconds on one monotonic clock, and never falls. The law is docs/pacing.md; its parts are the modules beside this one.

Invariants: order is kept, over all kinds; nothing is lost or doubled; the first token leaves in the `due` after its `push`; what the
promise asks leaves in time if `due` is asked each frame; the ceiling holds where the promise does not ask for more.
"""

from __future__ import annotations

from typing import Final

from gateway.pacing.drain import THIN_RATE
from gateway.pacing.passing import LEAST_CUT, ROUNDING, Passing
from gateway.pacing.reserve import PULSE_S
from gateway.pacing.rhythm import BURST_GAP_S
from gateway.pacing.unpaced import Unpaced
from gateway.piece import Kind, Piece

__all__ = ["Pacer", "Unpaced"]

_CREDIT_FRAMES: Final = 1.2  # frames' worth of rate that may be saved up: a late tick is made good, a refused one is not piled up
_DEBT_S: Final = 0.2  # at the rate of now: what one heavy word owes must not grow into a stall when the rate falls
_INEXACT: Final = 0.5  # tokens by which a piece may exceed what it is allowed before it is cut: not worth an event of its own
_STRUCTURE: Final = Kind.STRUCTURE


class Pacer(Passing):
    """Paces one stream; what it can be told and asked besides is in `Passing`."""

    __slots__ = ()

    def push(self, now: float, piece: Piece) -> None:
        """A piece arrived. Text of weight 0 (a tool call's id and name) counts as the arrival of its kind."""
        self._queue.append((piece, now))
        self.held_bytes += piece.size
        kind = piece.kind
        if kind is _STRUCTURE:
            self._hurried = True
            return
        if now != self._new_at or kind is not self._kind:
            self._settle()
            self._new_at = now
            if kind is not self._kind:
                self._switch(now, kind)
        weight = piece.weight
        if weight:
            self._ended = False
            self._new_tokens += weight
            self._pushed += weight
            if self._switched_at is not None:
                self._pace.promise_first(self._switched_at, kind, self._pushed - weight + min(weight, LEAST_CUT))
                self._switched_at = None

    def end(self, now: float) -> None:
        """The upstream's last token has arrived: everything is out within `end` of its arrival. A later push takes this back."""
        self._settle()
        if self._pushed:
            self._pace.promise_end(now, self._pushed, newly=not self._ended)
        self._ended = True

    def resume(self, now: float) -> None:
        """The client has taken nothing since the last `due` and does again: no credit for that time, nor promise broken by it."""
        self._settle()
        if self._pushed and self._queue:
            self._pace.stood_still(now - self._last_due, now, self._kind, self._ended)
        self._credit = min(self._credit, 0.0)
        self._last_due = now

    def next_wakeup(self) -> float | None:
        """When `due` should be asked next; None when nothing is held. Asking earlier does no harm."""
        if not self._queue:
            return None
        if self._reserving:
            return self._last_due if self._hurried or self._ended or self._new_tokens else self._pulse_at()
        wait = self._frame_s
        pace = self._pace
        if self._credit < 0.0 < pace.rate:
            # A thinned-out stream has nothing to send for several frames, but what the promise asks must be looked at in time.
            slack = pace.deadlines.left(self._last_due) - 2.0 * pace.lead_s
            wait = max(wait, min(-self._credit / pace.rate, slack, self._left_at + PULSE_S - self._last_due))
        return self._last_due + wait

    def due(self, now: float) -> list[Piece]:
        """What leaves now, in one frame, in order; it may be nothing. Ask after each arrival, and each frame while not empty."""
        queue = self._queue
        if not queue:
            return []
        if self._reserving and not self._new_tokens:
            return self._pulse(now)
        pace = self._pace
        elapsed = now - self._last_due
        self._last_due = now
        self._credit += pace.rate * elapsed
        room = self._ceiling.room(now)
        held = self._pushed - self._out
        was_empty = self._was_empty
        if was_empty and (self._credit > 0.0 or self._new_at - pace.rhythm.last_at > BURST_GAP_S):
            self._credit = 0.0  # nothing was there to be sent: no claim to send more now, and after a silence no debt either
        if self._new_tokens:
            steady = pace.arrived(self._new_at, self._new_tokens, self._kind, held)
            self._new_tokens = 0.0
            if steady and was_empty and held <= room and held <= self.max_frame_tokens:
                return self._pass(now, held)
            if self._reserving:
                self._join_reserve()
            pace.promise(self._new_at, self._kind, self._pushed)
        if not was_empty:
            pace.frame_came(elapsed)
        if pace.kept_tokens and ROUNDING < held <= self._kept() and pace.is_promised(queue[0][1], queue[0][0].kind, now, self._out):
            self._settled(held)  # what the ceiling had held back has left: the stream passes again
            return self._pulse(now)
        must = pace.deadlines.overdue(now + pace.lead_s, self._out)
        limit = pace.choose(now, held, self._out, must, room, self._ended)
        if held - must > self.max_held_tokens:
            must = held - self.max_held_tokens
        most = max(pace.rate * _CREDIT_FRAMES * pace.lead_s, LEAST_CUT)
        self._credit = min(max(self._credit, -pace.rate * _DEBT_S), most) if pace.rate != THIN_RATE else -1.0
        return self._release(now, min(limit, self.max_frame_tokens), room, must)

    def _release(self, now: float, limit: float, room: float, must: float) -> list[Piece]:
        """Takes from the queue what the credit allows within `limit`, and `must` in any case; never nothing of a stream's first."""
        queue = self._queue
        credit = self._credit
        held = self.held
        frame: list[Piece] = []
        left = 0.0  # tokens in this frame
        silent = now + 0.5 * self._pace.lead_s >= self._left_at + PULSE_S or not self._started
        while queue:
            piece, at = queue[0]
            weight = piece.weight
            if not weight:
                queue.popleft()
            else:
                forced = must - left > ROUNDING or (silent and not left) or (piece.joined and bool(frame))
                if not forced and (credit - left < -ROUNDING or limit - left < (weight if weight < LEAST_CUT else LEAST_CUT)):
                    break
                allowed = max(must - left, (credit if credit < limit else limit) - left, LEAST_CUT)
                if weight > allowed + _INEXACT:
                    piece = self._cut(piece, at, allowed)
                    if piece.cuttable and piece.weight > allowed + _INEXACT:  # one event of a run, too heavy by itself
                        queue.appendleft((piece, at))
                        piece = self._cut(piece, at, allowed)
                    weight = piece.weight
                else:
                    queue.popleft()
                if weight > limit - left + _INEXACT and not forced and left + self._ceiling.spent > ROUNDING:
                    queue.appendleft((piece, at))  # it cannot be cut, and waits for a window of its own
                    break
                self._started = True
                left += weight
            self.held_bytes -= piece.size
            frame.append(piece)
            if held is not None:
                held(piece.kind, now - at)
        if left:
            if left > room + LEAST_CUT:
                self.deadline_releases += 1
            self._ceiling.spend(now, left)
            self._left_at = now
            self._out += left
            if must <= 0.0:
                self._credit -= left
            else:
                self._credit = min(0.0, self._credit - max(0.0, left - must))  # what was due anyhow is no debt
        if not queue:
            self._emptied()
        else:
            self._was_empty = False
        return frame

    def _switch(self, now: float, kind: Kind) -> None:
        if self._reserving:
            self._join_reserve()
        if self._kind is not _STRUCTURE:
            self._pace.promise_switch(now, self._pushed)
            self._switched_at = now
        self._kind = kind

    def _settle(self) -> None:
        """Tells the pace what was pushed and not yet asked for."""
        if self._new_tokens:
            if self._reserving:
                self._join_reserve()
            self._pace.arrived(self._new_at, self._new_tokens, self._kind, self._pushed - self._out)
            self._pace.promise(self._new_at, self._kind, self._pushed)
            self._new_tokens = 0.0
