"""The events of one read as pieces: those that are alike many at a time, the others one by one. Pure.

The fast way itself is dialects/alike.py; here is only the choice, so that whatever it does not take goes the way of all events.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.dialects.base import Dialect
from gateway.piece import Piece
from gateway.wire.sse import Decoder, Event

# In one read. Each looks through what is left of it, so their number bounds the cost where no two neighbours are alike.
_SKIMS: Final = 16


class Read(NamedTuple):
    """pieces: what the events are. events: how many were looked at."""

    pieces: list[Piece]
    events: int


def read_events(dialect: Dialect, events: list[Event]) -> Read:
    """One by one, until nothing that follows counts."""
    pieces: list[Piece] = []
    for event in events:
        pieces += dialect.read(event)
        if dialect.failure is not None or dialect.ended:
            break
    return Read(pieces, len(events))


def read_whole(dialect: Dialect, decoder: Decoder, whole: bytes) -> Read:
    """`whole`: what the decoder gave of that name."""
    pieces: list[Piece] = []
    count = at = skims = 0
    end = len(whole)
    while at < end:
        found = dialect.skim(whole, at) if skims < _SKIMS else None
        if found is not None:
            if found.stop == end and not at:  # all of it at once, as nearly always
                decoder.progressed = True
                return Read(found.pieces, found.events)
            skims += 1
            pieces += found.pieces
            count += found.events
            at = found.stop
            decoder.progressed = True
            continue
        stop = whole.find(b"\n\n", at) + 2 if skims < _SKIMS else end
        if stop <= at:  # a lone line end behind a blank line
            break
        read = read_events(dialect, decoder.events_in(whole[at:stop]))
        pieces += read.pieces
        count += read.events
        if dialect.failure is not None or dialect.ended:
            break
        at = stop
    return Read(pieces, count)
