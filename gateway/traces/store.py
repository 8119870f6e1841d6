"""The file that a gateway appends its traces to: bounded, one predecessor kept, written by a thread of its own.

Invariants: a stream never waits for the disk; what cannot be written is dropped and said once in the log; at most `limit_bytes` a file; a
line is whole or not there. Several processes (workers, a second gateway) may write to one file: each line is written under a lock.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.traces.format import Trace, line_of

try:
    import fcntl
except ImportError:  # not on Windows, where there are no workers either
    fcntl = None  # type: ignore[assignment]

LOG: Final = logging.getLogger("decluster")
WAITING_AT_MOST: Final = 64  # traces that the disk has not taken yet: up to 5 MB each
_CLOSE_S: Final = 5.0  # at the end, for a disk that is slow


class Store:
    """`limit_bytes`: at which the file becomes `FILE.1`, the one before that going."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        """Raises OSError where the file cannot be written."""
        with path.open("ab"):
            pass
        self._path = path
        self._limit_bytes = limit_bytes
        self._queue: queue.Queue[Callable[[], Trace] | None] = queue.Queue(WAITING_AT_MOST)
        self._complained = False
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def add(self, make: Callable[[], Trace]) -> None:
        """`make` is called in the thread: to make a trace of a long answer takes as long as many frames."""
        try:
            self._queue.put_nowait(make)
        except queue.Full:
            self._complain("the disk is too slow")

    def close(self) -> None:
        """Returns when all is written, or when the disk has had its time."""
        with suppress(queue.Full):
            self._queue.put(None, timeout=_CLOSE_S)
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while (make := self._queue.get()) is not None:
            try:
                self._write(line_of(make()).encode() + b"\n")
            except OSError as error:
                self._complain(error.strerror or "the file cannot be written")
            except Exception as error:  # a fault of ours in one trace: the next ones are still wanted
                self._complain(f"a fault: {type(error).__name__}")

    def _write(self, line: bytes) -> None:
        if len(line) > self._limit_bytes:
            self._complain("a trace is larger than trace.file_bytes")
            return
        while not self._fits_and_is_written(line):
            pass

    def _fits_and_is_written(self, line: bytes) -> bool:
        """False where the file was full: it has been put away."""
        file = self._locked()
        try:
            size = os.fstat(file).st_size
            if size and size + len(line) > self._limit_bytes:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                return False
            written = 0
            try:
                written = os.write(file, line)
            finally:
                if written < len(line):  # what is torn would spoil the next line as well
                    os.ftruncate(file, size)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return True
        finally:
            os.close(file)  # and with it the lock

    def _locked(self) -> int:
        """The file that has the path now, locked."""
        while True:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            if fcntl is None:
                return file
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if self._path.exists() and os.path.samestat(self._path.stat(), os.fstat(file)):
                    return file
            except FileNotFoundError:  # between the two
                pass
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # another process has put it away meanwhile

    def _complain(self, why: str) -> None:
        if not self._complained:
            self._complained = True
            LOG.warning("traces are lost", extra={"file": str(self._path), "reason": why})
