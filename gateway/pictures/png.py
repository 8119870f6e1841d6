"""Curves as a PNG, by Pillow (the extra `png`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gateway.pictures.curves import Curve, bursts, extent, ticks

_WIDTH, _HEIGHT, _SCALE = 1720, 640, 2
_LEFT, _BELOW, _ABOVE = 110, 60, 60
_COLOURS = ("#c2410c", "#0f766e", "#6d28d9")


def png(curves: Sequence[Curve], path: Path) -> None:
    """Raises ImportError without Pillow, OSError where the file cannot be written."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=22)
    last_s, most = extent(curves)

    def x(at: float) -> float:
        return _LEFT + at / last_s * (_WIDTH - _LEFT - 20)

    def y(tokens: float) -> float:
        return _HEIGHT - _BELOW - tokens / most * (_HEIGHT - _BELOW - _ABOVE)

    for tokens in ticks(most):
        draw.line([(_LEFT, y(tokens)), (_WIDTH, y(tokens))], fill="#dddddd")
        draw.text((_LEFT - 12, y(tokens)), f"{tokens:g}", fill="black", font=font, anchor="rm")
    for at in ticks(last_s):
        if at < 0.97 * last_s:
            draw.text((x(at), _HEIGHT - 30), f"{at:g} s", fill="black", font=font, anchor="mm")
    across = _LEFT
    for index, curve in enumerate(curves):
        colour = _COLOURS[index % len(_COLOURS)]
        points, total = [(x(0), y(0))], 0.0
        for at, tokens in curve.steps:
            points.append((x(at), y(total)))
            total += tokens
            points.append((x(at), y(total)))
        draw.line(points, fill=colour, width=2 * _SCALE)
        for at, up in bursts(curve):
            draw.ellipse([x(at) - 6, y(up) - 6, x(at) + 6, y(up) + 6], fill=colour)
        draw.text((across, 20), curve.name, fill=colour, font=font)
        across += int(draw.textlength(curve.name, font=font)) + 40
    image.save(path, "PNG")
