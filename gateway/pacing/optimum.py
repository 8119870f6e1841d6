"""How smooth a stream could have been: the best that could be done, knowing the future.

Owns the offline optimum that pacing is measured against, and the deadlines that bound it. Knows nothing of the pacer. What had arrived by t
bounds what can be out by t, and the promise bounds it from below; of all curves in that corridor the taut string has the least peak
rate, the least variance of the rate and the least silence at once (Salehi, Zhang, Kurose, Towsley, "Supporting stored video: reducing
rate variability and end-to-end resource requirements through optimal smoothing", 1998). Linear in the number of grid points.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from gateway.piece import Kind
from gateway.settings import Pacing

Step = tuple[float, float, Kind]  # seconds, tokens, kind
Curve = list[tuple[float, float]]  # seconds, tokens that came or went then
_Point = tuple[int, float]  # grid index, tokens so far

GRID_S: Final = 0.005  # a quarter of a frame: finer than anything that is delivered
_FIRST_TOKENS: Final = 1.0  # the first token leaves at once, in the optimum too
_ROUNDING_S: Final = 1e-9


def promised(arrivals: Sequence[Step], settings: Pacing) -> Curve:
    """(deadline, tokens) for each arrival: when it must be out by the promise; deadlines never fall."""
    lags = (settings.max_lag.content, settings.max_lag.reasoning, settings.max_lag.tool)
    latest = arrivals[-1][0] + settings.end
    following: Step | None = None
    out: Curve = []
    for step in reversed(arrivals):
        at, tokens, kind = step
        if following is not None and following[2] is not kind:
            latest = min(latest, following[0] + settings.switch)
        latest = min(latest, at + lags[kind])
        out.append((max(latest, at), tokens))
        following = step
    return out[::-1]


def optimum(arrivals: Sequence[Step], due: Curve, grid_s: float = GRID_S) -> Curve:
    """The taut string between what had arrived and what was due, as (seconds, tokens) for each grid step, zeros included."""
    start = arrivals[0][0]
    points = int((max(due[-1][0], arrivals[-1][0]) - start) / grid_s) + 3
    upper = _sums(((at, tokens) for at, tokens, _ in arrivals), start, points, grid_s)
    lower = _sums(due, start, points, grid_s)
    lower[-1] = upper[-1]
    first = min(max(lower[0], _FIRST_TOKENS), upper[0])
    bends = taut_string(lower, upper, first)
    out: Curve = [(start, first)]
    for (i, low), (j, high) in pairwise(bends):
        each = (high - low) / (j - i)
        out += [(start + k * grid_s, each) for k in range(i + 1, j + 1)]
    return out


def taut_string(lower: Sequence[float], upper: Sequence[float], first: float) -> list[_Point]:
    """The bends of the shortest path from (0, first) to (n, upper[n]) with lower <= path <= upper; lower[n] must equal upper[n].

    A funnel: from the last bend on, the greatest convex minorant of the upper bound and the least concave majorant of the lower.
    """
    apex: _Point = (0, first)
    bends = [apex]
    ceiling: deque[_Point] = deque()
    floor: deque[_Point] = deque()
    for j in range(1, len(lower)):
        _extend(ceiling, apex, (j, upper[j]), 1.0)
        _extend(floor, apex, (j, lower[j]), -1.0)
        # Where the two chains cross, the string bends: round the nearer of their first points.
        while ceiling and floor and _slope(apex, floor[0]) > _slope(apex, ceiling[0]):
            apex = ceiling.popleft() if ceiling[0][0] < floor[0][0] else floor.popleft()
            bends.append(apex)
            if not ceiling:
                ceiling.append((j, upper[j]))
            if not floor:
                floor.append((j, lower[j]))
            if apex[0] == j:
                ceiling.clear()
                floor.clear()
    end = (len(lower) - 1, upper[-1])
    bends += [point for point in (ceiling if len(ceiling) > len(floor) else floor) if point[0] < end[0]]
    if bends[-1][0] < end[0]:
        bends.append(end)
    return bends


def _extend(chain: deque[_Point], apex: _Point, point: _Point, sign: float) -> None:
    """Adds a point to a chain whose slopes rise (sign 1: under the upper bound) or fall (sign -1: over the lower)."""
    while chain:
        before = chain[-2] if len(chain) > 1 else apex
        if sign * (_slope(before, point) - _slope(before, chain[-1])) > 0.0:
            break
        chain.pop()
    chain.append(point)


def _slope(a: _Point, b: _Point) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


def _sums(steps: Iterable[tuple[float, float]], start: float, points: int, grid_s: float) -> list[float]:
    """What had come by each grid point."""
    sums = [0.0] * points
    for at, tokens in steps:
        # The first grid point that is not before it.
        index = max(0, -int(-(at - start - _ROUNDING_S) // grid_s))
        if index < points:
            sums[index] += tokens
    total = 0.0
    for i, tokens in enumerate(sums):
        total += tokens
        sums[i] = total
    return sums
