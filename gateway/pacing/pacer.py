"""When each piece of a stream leaves.

Owns the queue of what is held and its release, frame by frame. Knows nothing of bytes, dialects, clocks or sockets: `now` is passed in,
in seconds on one monotonic clock, and never falls. The law is docs/pacing.md; its parts are the modules beside this one.

Invariants: order is kept, over all kinds; nothing is lost or doubled; the first token leaves in the `due` after its `push`; what the
promise asks leaves in time if `due` is asked each frame; the ceiling holds where the promise does not ask for more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gateway.pacing.ceiling import Ceiling
from gateway.pacing.drain import UNLIMITED
from gateway.pacing.horizon import Horizon
from gateway.pacing.pace import Pace
from gateway.pacing.rhythm import BURST_GAP_S
from gateway.pacing.unpaced import Unpaced
from gateway.piece import Kind, Piece
from gateway.settings import Pacing

__all__ = ["Pacer", "Unpaced"]

_CREDIT_FRAMES = 1.2  # frames' worth of rate that may be saved up: a late tick is made good, a refused one is not piled up
_DEBT_S = 0.2  # at the rate of now: what one heavy word owes must not grow into a stall when the rate falls
_LEAST_CUT = 1.0  # tokens: a smaller head would cost an event for a part of a word
_INEXACT = 0.5  # tokens by which a piece may exceed what it is allowed before it is cut: not worth an event of its own
_ROUNDING = 1e-9  # tokens
_STRUCTURE = Kind.STRUCTURE


class Pacer:
    """Paces one stream. Weights are tokens, times seconds.

    held(kind, waited_s): called for each piece that leaves. deadline_releases: frames that the promise forced above the ceiling.
    max_frame_tokens: no frame holds more, as far as pieces can be cut and the promise allows. max_held_tokens: what is held above it
    leaves at once. held_bytes: of all that is held.
    """

    __slots__ = (
        "_ceiling",
        "_credit",
        "_ended",
        "_frame_s",
        "_kind",
        "_last_due",
        "_new_at",
        "_new_tokens",
        "_out",
        "_pace",
        "_pushed",
        "_queue",
        "_started",
        "_switched_at",
        "_was_empty",
        "deadline_releases",
        "held",
        "held_bytes",
        "max_frame_tokens",
        "max_held_tokens",
    )

    def __init__(
        self,
        settings: Pacing,
        horizon: Horizon | None = None,
        held: Callable[[Kind, float], None] | None = None,
    ) -> None:
        self._ceiling = Ceiling(settings.ceiling_tokens, settings.ceiling_window)
        self._pace = Pace(settings, Horizon() if horizon is None else horizon, self._ceiling.rate)
        self._frame_s = settings.frame
        self._queue: deque[tuple[Piece, float]] = deque()  # with the time of arrival
        self._pushed = 0.0  # tokens since the stream began
        self._out = 0.0
        self._new_tokens = 0.0  # pushed at _new_at, not yet told to the pace: one network read pushes many pieces
        self._new_at = 0.0
        self._kind = _STRUCTURE  # of the last text; none has come yet
        self._switched_at: float | None = None  # another kind began then, and none of its tokens has come
        self._credit = 0.0  # tokens that the rate allows; below zero what has left ahead of it
        self._last_due = 0.0
        self._started = False
        self._ended = False
        self._was_empty = True
        self.deadline_releases = 0
        self.held = held
        self.held_bytes = 0
        self.max_frame_tokens = UNLIMITED
        self.max_held_tokens = UNLIMITED

    @property
    def backlog_tokens(self) -> float:
        return self._pushed - self._out if self._queue else 0.0

    @property
    def empty(self) -> bool:
        return not self._queue

    def push(self, now: float, piece: Piece) -> None:
        """A piece arrived. Text of weight 0 (a tool call's id and name) counts as the arrival of its kind."""
        self._queue.append((piece, now))
        self.held_bytes += piece.size
        kind = piece.kind
        if kind is _STRUCTURE:
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
                self._pace.promise_first(self._switched_at, kind, self._pushed)
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

    def flush(self) -> list[Piece]:
        """Everything held, in order, at once: after an error nothing more comes, and nobody waits for the rest."""
        pieces = [piece for piece, _ in self._queue]
        self._queue.clear()
        self.held_bytes = 0
        self._emptied()
        return pieces

    def next_wakeup(self) -> float | None:
        """When `due` should be asked next; None when nothing is held. Asking earlier does no harm."""
        if not self._queue:
            return None
        wait = self._frame_s
        pace = self._pace
        if self._credit < 0.0 < pace.rate:
            # A thinned-out stream has nothing to send for several frames, but what the promise asks must be looked at in time.
            slack = pace.deadlines.left(self._last_due) - 2.0 * pace.lead_s
            wait = max(wait, min(-self._credit / pace.rate, slack))
        return self._last_due + wait

    def due(self, now: float) -> list[Piece]:
        """What leaves now, in one frame, in order; it may be nothing. Ask after each arrival, and each frame while not empty."""
        queue = self._queue
        if not queue:
            return []
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
            pace.promise(self._new_at, self._kind, self._pushed)
        if not was_empty:
            pace.frame_came(elapsed)
        must = pace.deadlines.overdue(now + pace.lead_s, self._out)
        limit = pace.choose(now, held, self._out, must, room, self._ended)
        if held - must > self.max_held_tokens:
            must = held - self.max_held_tokens
        most = max(pace.rate * _CREDIT_FRAMES * pace.lead_s, _LEAST_CUT)
        self._credit = min(max(self._credit, -pace.rate * _DEBT_S), most)
        return self._release(now, min(limit, self.max_frame_tokens), room, must)

    def _release(self, now: float, limit: float, room: float, must: float) -> list[Piece]:
        """Takes from the queue what the credit allows within `limit`, and `must` in any case; never nothing of a stream's first."""
        queue = self._queue
        credit = self._credit
        held = self.held
        frame: list[Piece] = []
        left = 0.0  # tokens in this frame
        while queue:
            piece, at = queue[0]
            if piece.weight:
                forced = must - left > _ROUNDING or not self._started or (piece.joined and bool(frame))
                if not forced and (credit - left < -_ROUNDING or limit - left < min(piece.weight, _LEAST_CUT)):
                    break
                allowed = max(must - left, min(credit, limit) - left, _LEAST_CUT)
                if piece.weight > allowed + _INEXACT:
                    piece = self._cut(piece, at, allowed)
                if piece.weight > limit - left + _INEXACT and not forced and left + self._ceiling.spent > _ROUNDING:
                    break  # it cannot be cut, and waits for a window of its own
                self._started = True
                left += piece.weight
            queue.popleft()
            self.held_bytes -= piece.size
            frame.append(piece)
            if held is not None:
                held(piece.kind, now - at)
        if left:
            if left > room + _LEAST_CUT:
                self.deadline_releases += 1
            self._ceiling.spend(now, left)
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

    def _pass(self, now: float, tokens: float) -> list[Piece]:
        """The steady stream's way: all that just came, at once."""
        pieces = [piece for piece, _ in self._queue]
        if self.held is not None:
            for piece, at in self._queue:
                self.held(piece.kind, now - at)
        self._queue.clear()
        self.held_bytes = 0
        self._started = True
        self._ceiling.spend(now, tokens)
        self._emptied()
        return pieces

    def _cut(self, piece: Piece, at: float, tokens: float) -> Piece:
        """The head of the first piece, of about `tokens`, now first in the queue; the piece itself where it has no boundary."""
        parts = piece.cut(tokens) if piece.cut is not None else None
        if parts is None:
            return piece
        head, tail = parts
        self._queue[0] = (tail, at)
        self._queue.appendleft((head, at))
        self.held_bytes += head.size + tail.size - piece.size
        self._out -= head.weight + tail.weight - piece.weight  # what is held stays the sum of the pieces' weights
        return head

    def _switch(self, now: float, kind: Kind) -> None:
        if self._kind is not _STRUCTURE:
            self._pace.promise_switch(now, self._pushed)
            self._switched_at = now
        self._kind = kind

    def _settle(self) -> None:
        """Tells the pace what was pushed and not yet asked for."""
        if self._new_tokens:
            self._pace.arrived(self._new_at, self._new_tokens, self._kind, self._pushed - self._out)
            self._pace.promise(self._new_at, self._kind, self._pushed)
            self._new_tokens = 0.0

    def _emptied(self) -> None:
        self._out = self._pushed
        self._new_tokens = 0.0
        self._credit = min(self._credit, 0.0)
        self._was_empty = True
        self._pace.deadlines.clear()
