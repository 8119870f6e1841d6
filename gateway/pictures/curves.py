"""What is drawn: a named curve of tokens against time, and where in it the bursts are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

from gateway.pacing.clusters import CLUSTER_TOKENS, CLUSTER_WINDOW_S


@dataclass(frozen=True, slots=True)
class Curve:
    """steps: (seconds since the request, tokens that came then), in order."""

    name: str
    steps: Sequence[tuple[float, float]]

    @property
    def last_s(self) -> float:
        return self.steps[-1][0] if self.steps else 0.0

    @property
    def tokens(self) -> float:
        return sum(tokens for _, tokens in self.steps)


def bursts(curve: Curve) -> list[tuple[float, float]]:
    """Where a cluster's tokens or more came in its window: when the window began, and all tokens by its end. Windows do not overlap."""
    found: list[tuple[float, float]] = []
    begin, inside, total = float("-inf"), 0.0, 0.0
    for at, tokens in curve.steps:
        if at - begin >= CLUSTER_WINDOW_S:
            begin, inside = at, 0.0
        inside += tokens
        total += tokens
        if inside >= CLUSTER_TOKENS:
            if found and found[-1][0] == begin:
                found[-1] = (begin, total)
            else:
                found.append((begin, total))
    return found


def extent(curves: Sequence[Curve]) -> tuple[float, float]:
    """Seconds and tokens that a picture of all of them spans; never zero."""
    return max((c.last_s for c in curves), default=0.0) or 1.0, max((c.tokens for c in curves), default=0.0) or 1.0


def ticks(most: float) -> list[float]:
    """Round numbers from 0 up to it, four or five."""
    power = 10.0 ** floor(log10(most / 4))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= most / 4)
    return [index * step for index in range(int(most / step + 1e-9) + 1)]
