"""A stream's first reads, until content has left: a burst at the beginning is read a little at a time.

So the first token leaves before the rest of its burst is decoded. Owns how long that took, which the loop's time does not show: it stands
still within a turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from gateway.pacing.unpaced import Unpaced
from gateway.stream import Phase, Stream

READ_BYTES: Final = 1024  # a few events: a token of the usual servers takes two to four hundred bytes
READS_AT_MOST: Final = 16  # lest one event of megabytes come in a thousand parts


class Opening:
    """took_s: from the read that brought the first content until its first frame was written; 0.0 before."""

    __slots__ = ("_stream", "took_s")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.took_s = 0.0

    def read(self, now: float, data: bytes, flush: Callable[[float], None]) -> None:
        """Receive it, and write what is due by `flush`."""
        stream, began = self._stream, time.monotonic()
        if not isinstance(stream.pacer, Unpaced):  # raw: what came in one write leaves in one
            for _ in range(READS_AT_MOST):
                if len(data) <= READ_BYTES or not stream.wants_upstream or stream.phase is not Phase.HOLDING:
                    break
                stream.receive(now, data[:READ_BYTES])
                data = data[READ_BYTES:]
            if stream.phase is Phase.OPEN:
                self._out(now, began, flush)
        stream.receive(now, data)
        self._out(now, began, flush)

    def _out(self, now: float, began: float, flush: Callable[[float], None]) -> None:
        flush(now)
        if not self.took_s and self._stream.first_sent_at is not None:
            self.took_s = time.monotonic() - began
