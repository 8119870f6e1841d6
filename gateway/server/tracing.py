"""Which streams are noted for `decluster trace`, and the note of one that has ended: times and amounts, no text, no id, no key."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from gateway.metrics.record import Record
from gateway.pacing.clusters import Meter
from gateway.settings import Tracing
from gateway.traces.format import Trace
from gateway.traces.recorder import RecordingMeter, bursts
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
        self._store.add(
            Trace(
                name=f"{record.model or 'model'}-{time.strftime('%H%M%S', time.gmtime())}"[:200],
                bursts=bursts(arrived.steps, began),
                dialect=dialect,
                upstream=record.upstream,
                model=(record.model or "")[:200] if (record.model or "").isprintable() else "",
                recorded=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                end=record.reason,
                delivered=bursts(delivered.steps, began),
            )
        )

    def close(self) -> None:
        """Returns when all is written."""
        if self._store is not None:
            self._store.close()
