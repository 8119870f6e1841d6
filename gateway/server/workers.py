"""Several worker processes behind one listening socket, and the supervisor that keeps them.

The supervisor binds, starts each worker as this same command with WORKER in its environment, replaces one that dies, passes signals on and
adds up what dead workers had counted. It serves nothing itself. Each worker is a whole gateway: breakers and keys' rests are its own;
limits, budgets and recordings are shared by Redis, and without it limits are divided by the number of workers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Final

from gateway.metrics.shared import retire
from gateway.settings import Settings

LOG: Final = logging.getLogger("decluster")
VARIABLE: Final = "DECLUSTER_WORKER"
_POLL_S: Final = 1.0  # between two looks at the workers; a signal ends the wait
_YOUNG_S: Final = 5.0  # one that dies sooner did not come up
_BACKOFF_S: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)  # before one is started anew, by how often it died young in a row
_GIVE_UP: Final = 5  # times that the first of all workers died young: the configuration or the machine is wrong


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker is told by its environment: the socket's descriptor, its place, how many there are, where counts are shared."""

    fd: int
    index: int
    count: int
    folder: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Worker | None:
        told = environ.get(VARIABLE)
        if told is None:
            return None
        fd, index, count, folder = told.split(",", 3)
        return cls(int(fd), int(index), int(count), Path(folder))

    def __str__(self) -> str:
        return f"{self.fd},{self.index},{self.count},{self.folder}"


@dataclass(slots=True)
class _Place:
    """One worker's place: its process, since when, and how often it died young in a row."""

    index: int
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    young: int = 0
    due: float = 0.0  # when the next is started
    came_up: bool = field(default=False)


class Supervisor:
    """`command`: what starts a worker. `reload`: checks the configuration anew; what is wrong with it, None if nothing."""

    def __init__(
        self, listener: socket.socket, count: int, command: Sequence[str], reload: Callable[[], str | None], grace_s: float
    ) -> None:
        self._listener = listener
        self._count = count
        self._command = list(command)
        self._reload = reload
        self._grace_s = grace_s
        self._folder = Path(tempfile.mkdtemp(prefix="decluster-"))
        self._places = [_Place(index) for index in range(count)]
        self._ending = 0  # signals that asked for the end
        self._hangups = 0

    def run(self) -> int:
        """Until SIGTERM or Ctrl-C. The exit code."""
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
        before = {number: signal.signal(number, self._noted) for number in numbers}
        self._woken, wakes = socket.socketpair()
        wakes.setblocking(False)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        try:
            return self._keep()
        finally:
            self._kill()
            signal.set_wakeup_fd(-1)
            wakes.close()
            self._woken.close()
            for number, handler in before.items():
                signal.signal(number, handler)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._listener.close()

    def _noted(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._hangups += 1
        elif number != signal.SIGCHLD:
            self._ending += 1

    def _keep(self) -> int:
        while not self._ending:
            now = time.monotonic()
            for place in self._places:
                self._look(place, now)
                if place.young >= _GIVE_UP and not any(each.came_up for each in self._places):
                    LOG.error("no worker comes up; its own lines say why", extra={"workers": self._count})
                    return 1
            if self._hangups:
                self._hangups = 0
                self._hang_up()
            self._wait()
        return self._end()

    def _look(self, place: _Place, now: float) -> None:
        process = place.process
        if process is None:
            if now >= place.due:
                self._start(place, now)
            return
        if process.poll() is None:
            if not place.came_up and now - place.started >= _YOUNG_S:
                place.came_up, place.young = True, 0
            return
        retire(self._folder, process.pid)
        place.young = 0 if now - place.started >= _YOUNG_S else place.young + 1
        place.process = None
        place.due = now + _BACKOFF_S[min(place.young, len(_BACKOFF_S) - 1)]
        LOG.error("a worker ended; another takes its place", extra={"worker": place.index, "pid": process.pid, "code": process.returncode})

    def _start(self, place: _Place, now: float) -> None:
        worker = Worker(self._listener.fileno(), place.index, self._count, self._folder)
        place.process = subprocess.Popen(  # noqa: S603 - this same command
            self._command,
            env={**os.environ, VARIABLE: str(worker)},
            pass_fds=[worker.fd],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches the supervisor alone, which passes it on
        )
        place.started = now

    def _hang_up(self) -> None:
        wrong = self._reload()
        if wrong is not None:
            LOG.error("the configuration is wrong, so nothing has changed", extra={"problem": wrong})
            return
        self._signal(signal.SIGHUP)

    def _end(self) -> int:
        """Pass each signal on, and wait for the workers."""
        self._listener.close()  # now: while it is open here the kernel takes connections that no worker will
        told = 0
        until = time.monotonic() + self._grace_s
        while any(place.process is not None and place.process.poll() is None for place in self._places):
            if told < self._ending:
                told += 1
                self._signal(signal.SIGTERM)
            if time.monotonic() > until:
                LOG.error("workers outlast the grace; they are killed")
                return 1
            self._wait()
        return 0

    def _wait(self) -> None:
        """Until a signal comes: one for the supervisor, or that a worker has ended."""
        if select.select([self._woken], [], [], _POLL_S)[0]:
            self._woken.recv(4096)

    def _signal(self, number: int) -> None:
        for place in self._places:
            if place.process is not None and place.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    place.process.send_signal(number)

    def _kill(self) -> None:
        for place in self._places:
            if place.process is not None and place.process.poll() is None:
                place.process.kill()
                place.process.wait()


def command_of(argv: Sequence[str]) -> list[str]:
    """What starts a worker of the command that was given these arguments."""
    return [sys.executable, "-m", "gateway", *argv]


def divided(settings: Settings, count: int) -> Settings:
    """Each worker's share of what all of them may, where they have no Redis to count in together."""
    admission = settings.admission
    if count < 2:
        return settings
    if admission.redis is not None:
        return _concurrent(settings, count)
    clients = tuple(
        replace(
            client,
            requests_per_minute=_share(client.requests_per_minute, count),
            tokens_per_minute=_share(client.tokens_per_minute, count),
            budget_per_day=None if client.budget_per_day is None else client.budget_per_day / count,
        )
        for client in settings.clients
    )
    models = tuple(
        replace(rule, requests_per_minute=_share(rule.requests_per_minute, count), tokens_per_minute=_share(rule.tokens_per_minute, count))
        for rule in admission.models
    )
    admission = replace(
        admission,
        requests_per_minute=_share(admission.requests_per_minute, count),
        tokens_per_minute=_share(admission.tokens_per_minute, count),
        models=models,
    )
    return _concurrent(replace(settings, clients=clients, admission=admission), count)


def _concurrent(settings: Settings, count: int) -> Settings:
    """What may run at once is counted in each process, with Redis and without."""
    admission = replace(
        settings.admission,
        concurrent=_share(settings.admission.concurrent, count),
        concurrent_per_client=_share(settings.admission.concurrent_per_client, count),
    )
    clients = tuple(replace(client, concurrent=_share(client.concurrent, count)) for client in settings.clients)
    return replace(settings, admission=admission, clients=clients)


def alone(settings: Settings) -> list[str]:
    """What several workers without Redis do less well than one, in sentences for the log."""
    found = []
    if settings.resume.redis is None:
        found.append("several workers without resume.redis: a stream can be resumed only where the same worker takes the request")
    counts = settings.admission.requests_per_minute or settings.admission.tokens_per_minute or settings.admission.models or settings.clients
    if settings.admission.redis is None and counts:
        found.append("several workers without admission.redis: each has its share of the limits and budgets, whichever takes the request")
    return found


def _share(amount: int | None, count: int) -> int | None:
    return None if amount is None else max(1, amount // count)
