"""The pacer's interface without pacing: everything is due at once.

For streams that asked for it (`x-client-streams: raw`) and routes in mode raw. Knows nothing of the law beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.piece import Kind, Piece


class Unpaced:
    """Hands out in `due` what was pushed. Weights are tokens, times seconds."""

    __slots__ = ("_queue", "backlog_tokens", "deadline_releases", "held", "held_bytes", "max_frame_tokens", "max_held_tokens")

    def __init__(self, held: Callable[[Kind, float], None] | None = None) -> None:
        self._queue: list[tuple[Piece, float]] = []
        self.backlog_tokens = 0.0
        self.deadline_releases = 0
        self.held = held
        self.held_bytes = 0
        self.max_frame_tokens = float("inf")
        self.max_held_tokens = float("inf")

    @property
    def empty(self) -> bool:
        return not self._queue

    def push(self, now: float, piece: Piece) -> None:
        self._queue.append((piece, now))
        self.backlog_tokens += piece.weight
        self.held_bytes += piece.size

    def passed(self, pieces: list[Piece]) -> None:
        """These went by in the moment in which they came, while nothing was held."""
        if self.held is not None:
            for piece in pieces:
                self.held(piece.kind, 0.0)

    def end(self, now: float) -> None:
        """Nothing is held, so nothing is hurried."""

    def resume(self, now: float) -> None:
        """No credit is kept, so none is lost."""

    def due(self, now: float) -> list[Piece]:
        if self.held is not None:
            for piece, at in self._queue:
                self.held(piece.kind, now - at)
        return self.flush()

    def next_wakeup(self) -> float | None:
        return self._queue[0][1] if self._queue else None

    def quicken(self, keep_bytes: int) -> None:
        """Nothing is held longer than a turn."""

    def flush(self) -> list[Piece]:
        pieces = [piece for piece, _ in self._queue]
        self._queue.clear()
        self.backlog_tokens = 0.0
        self.held_bytes = 0
        return pieces
