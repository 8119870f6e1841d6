"""Curves in a terminal: for each a band of columns, a column being a stretch of time; its height is the most that came in 50 ms of it."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.pacing.clusters import CLUSTER_TOKENS, CLUSTER_WINDOW_S
from gateway.pictures.curves import Curve, bursts, extent

_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*%#"
_ROWS = 3  # the lowest is what stays below a cluster


def terminal(curves: Sequence[Curve], columns: int, unicode: bool = True) -> str:
    """Lines of text at most so many columns wide."""
    last_s, _ = extent(curves)
    columns = max(20, columns)
    marks = _BLOCKS if unicode else _ASCII
    lines = []
    for curve in curves:
        found = bursts(curve)
        head = f"{curve.name}: {curve.tokens:.0f} tokens, {len(found)} clusters, largest {_most(curve):.0f} in 50 ms"
        heights = _columns(curve, columns, last_s)
        lines.append(head[:columns])
        lines += [
            "".join(_mark(value, row * CLUSTER_TOKENS, (row + 1) * CLUSTER_TOKENS, marks) for value in heights).rstrip()
            for row in reversed(range(_ROWS))
        ]
    left, right = "0 s", f"{last_s:.1f} s"
    lines.append(left + right.rjust(columns - len(left)))
    lines.append("tokens in 50 ms; what rises above the lowest row is a cluster"[:columns])
    return "\n".join(lines)


def _windows(curve: Curve) -> list[tuple[float, float]]:
    """(seconds, tokens) of windows of 50 ms on a fixed grid."""
    out: dict[int, float] = {}
    for at, tokens in curve.steps:
        index = int(at / CLUSTER_WINDOW_S)
        out[index] = out.get(index, 0.0) + tokens
    return [(index * CLUSTER_WINDOW_S, tokens) for index, tokens in sorted(out.items())]


def _most(curve: Curve) -> float:
    return max((tokens for _, tokens in _windows(curve)), default=0.0)


def _columns(curve: Curve, columns: int, last_s: float) -> list[float]:
    heights = [0.0] * columns
    for at, tokens in _windows(curve):
        index = min(columns - 1, int(at / last_s * columns))
        heights[index] = max(heights[index], tokens)
    return heights


def _mark(value: float, low: float, high: float, marks: str) -> str:
    """Whatever is there at all is seen."""
    if value <= low:
        return marks[0]
    return marks[max(1, min(len(marks) - 1, round((value - low) / (high - low) * (len(marks) - 1))))]
