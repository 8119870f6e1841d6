"""The file that a gateway appends its traces to: bounded, one predecessor kept, written by a thread of its own.

Invariants: a stream never waits for the disk; what cannot be written is dropped and said once in the log; at most `limit_bytes` a file.
"""

from __future__ import annotations

import logging
import queue
import threading
from pathlib import Path
from typing import Final

from gateway.traces.format import Trace, line_of

LOG: Final = logging.getLogger("decluster")
WAITING_AT_MOST: Final = 256  # traces that the disk has not taken yet


class Store:
    """`limit_bytes`: at which the file becomes `FILE.1`, the one before that going."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        """Raises OSError where the file cannot be written."""
        with path.open("ab"):
            pass
        self._path = path
        self._limit_bytes = limit_bytes
        self._queue: queue.Queue[Trace | None] = queue.Queue(WAITING_AT_MOST)
        self._complained = False
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def add(self, trace: Trace) -> None:
        try:
            self._queue.put_nowait(trace)
        except queue.Full:
            self._complain("the disk is too slow")

    def close(self) -> None:
        """Returns when all is written."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (trace := self._queue.get()) is not None:
            try:
                self._write(line_of(trace).encode() + b"\n")
            except OSError as error:
                self._complain(error.strerror or "the file cannot be written")

    def _write(self, line: bytes) -> None:
        if len(line) > self._limit_bytes:
            return
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size + len(line) > self._limit_bytes:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
        with self._path.open("ab") as file:
            file.write(line)

    def _complain(self, why: str) -> None:
        if not self._complained:
            self._complained = True
            LOG.warning("traces are lost", extra={"file": str(self._path), "reason": why})
