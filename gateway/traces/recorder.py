"""A meter that also notes what it counts, so that a stream can be told of afterwards. Pure; costs nothing where none is made.

Bounded: beyond STEPS_AT_MOST moments the later ones are joined to the last noted, so that tokens are never lost, only their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.pacing.clusters import Meter
from gateway.piece import LABELS, Kind
from gateway.traces.format import Burst

STEPS_AT_MOST: Final = 20_000  # of one side of one stream: a megabyte of file at most

Steps = Sequence[tuple[float, float, Kind]]  # seconds, tokens, kind


class RecordingMeter(Meter):
    """steps: (time, tokens, kind) as they were counted."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[float, float, Kind]] = []

    def add(self, now: float, tokens: float, kind: Kind) -> None:
        super().add(now, tokens, kind)
        if not tokens or kind is Kind.STRUCTURE:
            return
        steps = self.steps
        if len(steps) < STEPS_AT_MOST:
            steps.append((now, tokens, kind))
        else:
            at, before, last = steps[-1]
            steps[-1] = (at, before + tokens, last)


def bursts(steps: Steps, began: float) -> tuple[Burst, ...]:
    """Whole tokens at whole moments: what a moment's fraction leaves is carried to the next of its kind, and none is lost at the end."""
    carried = [0.0] * len(Kind)
    final = {kind: index for index, (_, _, kind) in enumerate(steps)}
    out: list[Burst] = []
    for index, (at, tokens, kind) in enumerate(steps):
        total = carried[kind] + tokens
        whole = max(1, round(total)) if index == final[kind] else int(total)
        carried[kind] = total - whole
        if not whole:
            continue
        at_ms = max(0.0, at - began) * 1e3
        if out and (out[-1].at_ms, out[-1].kind) == (at_ms, LABELS[kind]):
            whole += out.pop().tokens
        out.append(Burst(at_ms, whole, LABELS[kind]))
    return tuple(out)
