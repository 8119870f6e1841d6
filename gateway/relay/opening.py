"""A stream that begins with a burst: its first token leaves before the rest of the burst is decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.pacing.unpaced import Unpaced
from gateway.stream import Phase, Stream

READ_BYTES: Final = 1024  # a few events: a token of the usual servers takes two to four hundred bytes
READS_AT_MOST: Final = 16  # lest one event of megabytes come in a thousand parts


def first_token(stream: Stream, now: float, data: bytes, flush: Callable[[float], None]) -> bytes:
    """Read a little at a time until content has come, and flush. Returns what is left of the data, for one read."""
    if isinstance(stream.pacer, Unpaced):  # raw: what came in one write leaves in one
        return data
    for _ in range(READS_AT_MOST):
        if len(data) <= READ_BYTES or not stream.wants_upstream:
            break
        stream.receive(now, data[:READ_BYTES])
        data = data[READ_BYTES:]
        if stream.phase is Phase.OPEN:
            flush(now)
            break
    return data
