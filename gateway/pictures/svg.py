"""Curves as SVG, in the colours of `document`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gateway.pictures.curves import Curve, bursts, extent, ticks

_WIDTH, _HEIGHT = 860, 300
_LEFT, _BELOW, _MARGIN = 52, 26, 10  # the numbers of the axes are outside the picture
_POINTS = 2_000  # of one curve: two a pixel


def svg(curves: Sequence[Curve]) -> str:
    """Tokens received against seconds since the request; where a cluster came, a dot."""
    last_s, most = extent(curves)

    def x(at: float) -> float:
        return round(_LEFT + at / last_s * (_WIDTH - _LEFT - _MARGIN), 1)

    def y(tokens: float) -> float:
        return round(_HEIGHT - _BELOW - tokens / most * (_HEIGHT - _BELOW - _MARGIN), 1)

    names = escape(" and ".join(curve.name for curve in curves), quote=True)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="tokens against time: {names}">']
    for tokens in ticks(most):
        up = y(tokens)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{up}" y2="{up}" stroke="var(--line)"/>'
            f'<text x="{_LEFT - 6}" y="{up + 4}" text-anchor="end">{tokens:g}</text>'
        )
    parts += [f'<text x="{x(at)}" y="{_HEIGHT - 6}" text-anchor="middle">{at:g} s</text>' for at in ticks(last_s) if at < 0.97 * last_s]
    for index, curve in enumerate(curves):
        colour = f"var(--c{index % 3})"
        points, total = [f"{x(0)},{y(0)}"], 0.0
        stride = max(1, len(curve.steps) // _POINTS)
        for number, (at, tokens) in enumerate(curve.steps):
            before, total = total, total + tokens
            if number % stride == 0 or number == len(curve.steps) - 1:
                points += [f"{x(at)},{y(before)}", f"{x(at)},{y(total)}"]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts += [f'<circle cx="{x(at)}" cy="{y(up)}" r="3" fill="{colour}"/>' for at, up in bursts(curve)[:_POINTS]]
    return "".join([*parts, "</svg>"])
