"""A trace through the pacer on a virtual clock: what a client would have got under other settings, beside the offline optimum.

The tokens are made up: a trace holds no text, and the pacer asks only for weights. A piece can be cut where a token ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from gateway.pacing.figures import Figures, judge
from gateway.pacing.optimum import Step
from gateway.pacing.pacer import Pacer
from gateway.pacing.run import runs
from gateway.piece import Kind, Piece
from gateway.settings import MaxLag, Pacing
from gateway.traces.format import Burst, Trace, TraceError

_KIND: Final = {"content": Kind.CONTENT, "reasoning": Kind.REASONING, "tool": Kind.TOOL}
LAGS_S: Final = (0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 1.5, 2.5, 4.0, 6.0, 10.0)  # tried when the least that is enough is asked for
SPAN_AT_MOST_S: Final = 7200.0  # the optimum is sought on a grid of milliseconds
_BEARABLE_MS: Final = 100.0  # of silence beyond 250 ms, in a whole stream: nobody sees it


@dataclass(frozen=True, slots=True)
class Replayed:
    arrived: list[Step]
    delivered: list[Step]
    figures: Figures


def steps_of(bursts: Sequence[Burst]) -> list[Step]:
    """(seconds, tokens, kind) of each event."""
    out: list[Step] = []
    for burst in bursts:
        size, events = burst.pack or burst.tokens, burst.events
        for index in range(events):
            tokens = min(size, burst.tokens - index * size)
            out.append(((burst.at_ms + index * burst.spread_ms / events) / 1e3, float(tokens), _KIND[burst.kind]))
    return sorted(out, key=lambda step: step[0])


def replay(trace: Trace, settings: Pacing) -> Replayed:
    """Deterministic. `trace` has at least one burst. TraceError for one that is too long."""
    arrived = steps_of(trace.bursts)
    if arrived[-1][0] - arrived[0][0] + trace.done_ms / 1e3 > SPAN_AT_MOST_S:
        raise TraceError(f"{trace.name}: is longer than {SPAN_AT_MOST_S / 3600:.0f} h: replay takes no stream of that length")
    delivered: list[Step] = []
    pacer = Pacer(settings)

    def deliver(now: float) -> None:
        delivered.extend((now, piece.weight, piece.kind) for piece in pacer.due(now) if piece.weight)

    tick = arrived[0][0] + settings.frame / 2
    moments = [(at, list(group)) for at, group in groupby(arrived, key=lambda step: step[0])]
    moments.append((arrived[-1][0] + trace.done_ms / 1e3, []))
    for at, group in moments:
        while tick < at:
            if not pacer.empty:
                deliver(tick)
            tick += settings.frame
        for piece in runs([_piece(tokens, kind) for _, tokens, kind in group]):
            pacer.push(at, piece)
        if not group:
            pacer.end(at)
        deliver(at)
    while not pacer.empty:
        deliver(tick)
        tick += settings.frame
    return Replayed(arrived, delivered, judge(arrived, delivered, settings))


def by_lag(trace: Trace, settings: Pacing) -> list[tuple[float, Figures]]:
    """The figures under each of LAGS_S, set for all kinds; all other settings stay, `switch` and `end` among them."""
    return [(lag_s, replay(trace, replace(settings, max_lag=MaxLag(lag_s, lag_s, lag_s))).figures) for lag_s in LAGS_S]


def enough(found: Sequence[tuple[float, Figures]]) -> float:
    """The least lag after which waiting longer gains nothing: no cluster fewer and no stall shorter than under the longest."""
    best = found[-1][1]
    return next(lag_s for lag_s, figures in found if figures.clusters <= best.clusters and figures.stall_ms <= best.stall_ms + _BEARABLE_MS)


def with_lag(settings: Pacing, kind: str, lag_s: float) -> Pacing:
    return replace(settings, max_lag=replace(settings.max_lag, **{kind: lag_s}))


def _piece(tokens: float, kind: Kind) -> Piece:
    def cut(wanted: float) -> tuple[Piece, Piece] | None:
        head = float(max(1, round(wanted)))
        return (_piece(head, kind), _piece(tokens - head, kind)) if head < tokens else None

    return Piece(kind, tokens, b"", cut if tokens > 1 else None)
