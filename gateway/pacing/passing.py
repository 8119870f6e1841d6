"""What one stream holds, and how it passes while it is steady.

Owns the queue with its counts, the cutting of its head, and the way of a steady stream: all that comes leaves at once, but for the reserve
of a fast one (reserve.py), which leaves word by word in a silence. Knows nothing of rates and frames: the pacer builds on this and adds
them. Invariants: order is kept; a reserve stays no longer than its lag promise; structure, an end and another kind do not wait for one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from gateway.pacing.ceiling import Ceiling
from gateway.pacing.drain import UNLIMITED
from gateway.pacing.horizon import Horizon
from gateway.pacing.pace import Pace
from gateway.pacing.reserve import PULSE_S
from gateway.piece import Kind, Piece, Run
from gateway.settings import Pacing

LEAST_CUT: Final = 1.0  # tokens: a smaller head would cost an event for a part of a word
ROUNDING: Final = 1e-9  # tokens


class Passing:
    """The state of one stream. Weights are tokens, times seconds.

    held(kind, waited_s): called for each piece that leaves. deadline_releases: frames that the promise forced above the ceiling.
    max_frame_tokens: no frame holds more, as far as pieces can be cut and the promise allows. max_held_tokens: what is held above it
    leaves at once. held_bytes: of all that is held.
    """

    __slots__ = (
        "_ceiling",
        "_credit",
        "_ended",
        "_frame_s",
        "_hurried",
        "_kind",
        "_last_due",
        "_left_at",
        "_new_at",
        "_new_tokens",
        "_out",
        "_pace",
        "_pushed",
        "_queue",
        "_reserving",
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
        self._ceiling = Ceiling(settings.ceiling_tokens, settings.ceiling_window, settings.frame)
        self._pace = Pace(settings, Horizon() if horizon is None else horizon, self._ceiling.rate)
        self._frame_s = settings.frame
        self._queue: deque[tuple[Piece, float]] = deque()  # with the time of arrival
        self._pushed = 0.0  # tokens since the stream began
        self._out = 0.0
        self._new_tokens = 0.0  # pushed at _new_at, not yet told to the pace: one network read pushes many pieces
        self._new_at = 0.0
        self._kind = Kind.STRUCTURE  # of the last text; none has come yet
        self._switched_at: float | None = None  # another kind began then, and none of its tokens has come
        self._credit = 0.0  # tokens that the rate allows; below zero what has left ahead of it
        self._last_due = 0.0
        self._left_at = 0.0  # when text left last
        self._started = False
        self._reserving = False  # what is held is a steady stream's reserve, and has no deadlines in the pace
        self._hurried = False  # structure came behind the reserve, and would wait with it
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

    def quicken(self, keep_bytes: int) -> None:
        """More bytes are held than may be, and the client takes what it is given: from now on no more tokens than fit into `keep_bytes`."""
        if self.held_bytes > keep_bytes:
            self.max_held_tokens = min(self.max_held_tokens, self.backlog_tokens * keep_bytes / self.held_bytes)

    def flush(self) -> list[Piece]:
        """Everything held, in order, at once: after an error nothing more comes, and nobody waits for the rest."""
        pieces = [piece for piece, _ in self._queue]
        self._queue.clear()
        self.held_bytes = 0
        self._emptied()
        return pieces

    def _pass(self, now: float, tokens: float) -> list[Piece]:
        """The steady stream's way: all that is here at once, but for the reserve of a fast one."""
        queue = self._queue
        kept = self._pace.kept_tokens and self._kept()
        held = self.held
        pieces: list[Piece] = []
        left = 0.0
        while queue:
            piece, at = queue[0]
            if kept:
                spare = tokens - left - kept
                if spare <= ROUNDING and self._started and not piece.joined:
                    break
                if piece.weight > spare and isinstance(piece, Run):
                    piece = self._cut(piece, at, spare)
                else:
                    queue.popleft()
            else:
                queue.popleft()
            self.held_bytes -= piece.size
            left += piece.weight
            pieces.append(piece)
            if held is not None:
                held(piece.kind, now - at)
        if left:
            self._started = True
            self._ceiling.spend(now, left)
            self._left_at = now
        if not queue:
            self._emptied()
        elif self._reserving:
            self._out += left
        else:
            self._settled(tokens - left)
        return pieces

    def _kept(self) -> float:
        """How much a steady stream may keep as its reserve."""
        if self._hurried or self._ended or self.max_frame_tokens != UNLIMITED:
            return 0.0
        return min(self._pace.kept_tokens, self.max_held_tokens)

    def _settled(self, kept: float) -> None:
        """What is held is a reserve from now on: it has no rate, and `_pulse` sees to its promise."""
        self._out = self._pushed - kept
        self._credit = min(self._credit, 0.0)
        self._was_empty = self._reserving = True
        self._pace.settled()

    def _pulse(self, now: float) -> list[Piece]:
        """Of the reserve, what a silence of the upstream's calls for; all of it when there is nothing more to wait for."""
        self._last_due = now
        if self._hurried or self._ended:
            return self._pass(now, self._pushed - self._out)
        queue = self._queue
        frame: list[Piece] = []
        left = 0.0
        while queue and (now + 0.5 * self._pace.lead_s >= self._pulse_at() or (frame and queue[0][0].joined)):
            piece, at = queue[0]
            if isinstance(piece, Run):
                piece = self._cut(piece, at, LEAST_CUT)
            else:
                queue.popleft()
            self.held_bytes -= piece.size
            left += piece.weight
            frame.append(piece)
            self._left_at = now
            if self.held is not None:
                self.held(piece.kind, now - at)
        if frame:
            self._ceiling.spend(now, left)
            self._out += left
            if not queue:
                self._emptied()
        return frame

    def _pulse_at(self) -> float:
        """When the first of the reserve leaves."""
        piece, at = self._queue[0]
        return min(self._left_at + PULSE_S, at + self._pace.lag_s(piece.kind) - self._pace.lead_s)

    def _join_reserve(self) -> None:
        """What was a reserve is held like all else from here on: it gets the deadlines that it was promised."""
        self._reserving = False
        count = self._out
        for piece, at in self._queue:
            count += piece.weight
            if piece.weight and count <= self._pushed - self._new_tokens + ROUNDING:
                self._pace.promise(at, piece.kind, count)

    def _cut(self, piece: Piece, at: float, tokens: float) -> Piece:
        """Takes the head of the first piece from the queue, of about `tokens`; all of it where it has no boundary."""
        if isinstance(piece, Run):
            head = piece.take(tokens)
            if head is not None:
                return head
        queue = self._queue
        parts = piece.cut(tokens)
        if parts is None:
            queue.popleft()
            return piece
        head, tail = parts
        queue[0] = (tail, at)
        self.held_bytes += head.size + tail.size - piece.size
        self._out -= head.weight + tail.weight - piece.weight  # what is held stays the sum of the pieces' weights
        return head

    def _emptied(self) -> None:
        self._out = self._pushed
        self._new_tokens = 0.0
        self._credit = min(self._credit, 0.0)
        self._was_empty = True
        self._reserving = self._hurried = False
        self._pace.deadlines.clear()
