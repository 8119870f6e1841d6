"""Which streams are noted for `decluster trace`, and the note of one that has ended: times and amounts, no text, no id, no key."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Final

from gateway.metrics.record import Record
from gateway.pacing.clusters import Meter
from gateway.settings import Tracing
from gateway.traces.format import Trace, shown
from gateway.traces.recorder import RecordingMeter, Steps, bursts
from gateway.traces.store import Store
from gateway.wire.headers import Fields, first

HEADER: Final = b"x-stream-trace"


class Tracer:
    """Without a file nothing is noted and nothing costs."""

    def __init__(self, settings: Tracing) -> None:
        """Raises OSError where the file cannot be written."""
        self._upstreams = frozenset(settings.upstreams)
        self._store = Store(Path(settings.file), settings.file_bytes) if settings.file is not None else None

    def meters(self, upstream: str, fields: Fields) -> tuple[Meter, Meter]:
        """Of what arrives and of what is delivered of one stream."""
        if self._store is None or not (upstream in self._upstreams or first(fields, HEADER) in (b"true", b"1")):
            return Meter(), Meter()
        return RecordingMeter(), RecordingMeter()

    def note(self, record: Record, arrived: Meter, delivered: Meter, began: float, dialect: str) -> None:
        """A stream has ended. `began`: when it was asked for, on the meters' clock."""
        if self._store is None or not isinstance(arrived, RecordingMeter) or not isinstance(delivered, RecordingMeter) or not arrived.steps:
            return
        done_s = (arrived.last_at or 0.0) - arrived.steps[-1][0]
        row = (record.model or "", record.upstream, record.reason, dialect)
        self._store.add(partial(_trace, *row, began, done_s, arrived.steps, delivered.steps))

    def close(self) -> None:
        """Returns when all is written."""
        if self._store is not None:
            self._store.close()


def _trace(model: str, upstream: str, end: str, dialect: str, began: float, done_s: float, arrived: Steps, delivered: Steps) -> Trace:
    at = time.time()
    now = time.gmtime(at)
    model = shown(model)
    return Trace(
        name=f"{model or 'model'}-{time.strftime('%H%M%S', now)}-{int(at * 1e3) % 1000:03}",
        bursts=bursts(arrived, began),
        done_ms=max(0.0, done_s * 1e3),
        dialect=dialect,
        upstream=upstream,
        model=model,
        recorded=time.strftime("%Y-%m-%dT%H:%M:%SZ", now),
        end=end,
        delivered=bursts(delivered, began),
    )
