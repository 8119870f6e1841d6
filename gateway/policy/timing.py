"""`x-stream-timing`: comments that tell when the first token left and how bursty the stream was.

Owns their wording. They stand before a frame, so at its boundary; clients that follow the specification ignore them.
"""

from __future__ import annotations

from typing import Protocol


class Counted(Protocol):
    """One side's meter, as far as it is told of here."""

    @property
    def first_at(self) -> float | None: ...

    @property
    def clusters(self) -> list[int]: ...


class Timing:
    """One stream's; `began`: when the request came, in seconds on the stream's clock."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._told_first = False

    def before(self, now: float, arrived: Counted, delivered: Counted, last: bool) -> bytes:
        """What belongs before the frame of this moment, which the meters count already."""
        told = self.first(now, arrived.first_at) if delivered.first_at is not None else b""
        return told + self.last(now, sum(arrived.clusters), sum(delivered.clusters)) if last else told

    def first(self, now: float, arrived_at: float | None) -> bytes:
        """Before the first frame with a token; empty once that was told."""
        if self._told_first:
            return b""
        self._told_first = True
        upstream = now if arrived_at is None else arrived_at
        return b": timing first_token_ms=%d upstream_first_token_ms=%d\n\n" % (self._ms(now), self._ms(upstream))

    def last(self, now: float, clusters_in: int, clusters_out: int) -> bytes:
        """Before the last frame."""
        return b": timing clusters_in=%d clusters_out=%d total_ms=%d\n\n" % (clusters_in, clusters_out, self._ms(now))

    def _ms(self, at: float) -> int:
        return round((at - self._began) * 1000)
