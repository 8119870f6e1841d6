"""How long pieces are held: what the pacer counts as they leave, a row of numbers a kind. Knows nothing of who reads it."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from gateway.piece import Kind

HOLD_S: Final[tuple[float, ...]] = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 5.0)


class Holds:
    """rows: by kind, counts by bucket of HOLD_S and one above all, then the sum in seconds."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows = [[0.0] * (len(HOLD_S) + 2) for _ in Kind]

    def __call__(self, kind: Kind, waited_s: float) -> None:
        row = self.rows[kind]
        row[-1] += waited_s
        row[bisect_left(HOLD_S, waited_s)] += 1.0
