"""The run: every request goes to each target in turn, so that what changes meanwhile meets all of them alike.

Request number k goes to the targets in an order that rotates with k. Recordings are read by a process of its own: what is read here would
delay the clock of the streams that still run. Bounded: by the plan's concurrency, patience and deadline; by what is kept; and where
nothing at all succeeds it ends early.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Final

from gateway.bench.listening import TOO_LARGE, Room, listen, weight
from gateway.bench.plan import Plan, Target
from gateway.bench.reading import Sample, read
from gateway.upstream.tls import context_factory

CURVES: Final = 3  # a target, kept for the report; the rest are let go of as they are read
GAPS_AT_MOST: Final = 1_000_000  # of one target: 8 MB; later streams count for all figures but the gaps' percentiles
GIVE_UP: Final = 20  # failures without one stream that was whole: the rest would fail as well, and may cost money

Progress = Callable[[int, int, int], None]  # done, of how many, failed


@dataclass(slots=True)
class Run:
    """samples: by target's name, in the order of their requests; what the end cut off is not among them. ended: why before its time."""

    samples: dict[str, list[Sample]]
    ended: str = ""


@dataclass(slots=True)
class _Kept:
    samples: dict[int, Sample] = field(default_factory=dict)
    curves: int = 0
    gaps: int = 0

    def add(self, number: int, sample: Sample) -> None:
        if self.curves >= CURVES or not sample.curve:
            sample = replace(sample, curve=[])
        self.curves += bool(sample.curve)
        if self.gaps >= GAPS_AT_MOST:
            sample = replace(sample, gaps_s=array("d"))
        self.gaps += len(sample.gaps_s)
        self.samples[number] = sample


async def run(plan: Plan, progress: Progress) -> Run:
    """Raises `upstream.tls.TrustError`. Cancelled once (Ctrl-C) it ends with what there is."""
    trust: ssl.SSLContext | None = None
    if any(target.url.startswith("https:") for target in plan.targets):
        trust = await asyncio.to_thread(context_factory())
    # Not forked: this process has threads and an event loop.
    with ProcessPoolExecutor(1, get_context("spawn"), _ignore_interrupts) as pool:
        return await _Runner(plan, progress, trust, pool).run()


class _Runner:
    def __init__(self, plan: Plan, progress: Progress, trust: ssl.SSLContext | None, pool: ProcessPoolExecutor) -> None:
        self._plan = plan
        self._progress = progress
        self._trust = trust
        self._pool = pool
        self._room = Room()
        self._found = {target.name: _Kept() for target in plan.targets}
        self._work = [(number, target) for number in range(plan.requests) for target in _turn(plan, number)]
        self._queue = iter(self._work)
        self._until = time.monotonic() + plan.deadline_s
        self._whole = self._failed = self._under_way = 0
        self._changed = asyncio.Condition()
        self._ended = ""

    async def run(self) -> Run:
        await asyncio.get_running_loop().run_in_executor(self._pool, time.monotonic)  # it starts before the clock does
        self._until = time.monotonic() + self._plan.deadline_s
        workers = [asyncio.ensure_future(self._worker()) for _ in range(min(self._plan.concurrency, len(self._work)))]
        try:
            await asyncio.gather(*workers)
        except asyncio.CancelledError:
            self._ended = "interrupted"
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        samples = {name: [kept.samples[number] for number in sorted(kept.samples)] for name, kept in self._found.items()}
        return Run(samples, self._ended)

    async def _worker(self) -> None:
        for number, target in self._queue:
            if not await self._may():
                return
            self._under_way += 1
            try:
                if not await self._ask(number, target):
                    return
            finally:
                self._under_way -= 1
                async with self._changed:
                    self._changed.notify_all()

    async def _may(self) -> bool:
        """Whether another request is to be sent: where none was whole yet and many failed, those that are under way decide."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._whole or self._failed < GIVE_UP or not self._under_way)
        if not self._whole and self._failed >= GIVE_UP:
            self._ended = f"given up: {self._failed} requests failed and none succeeded"
            return False
        if time.monotonic() >= self._until:
            self._ended = "at its deadline"
            return False
        return True

    async def _ask(self, number: int, target: Target) -> bool:
        """False where the run's end cut it off."""
        plan = self._plan
        patience_s = min(plan.patience_s, max(0.0, self._until - time.monotonic()))
        recording = await listen(target.url, plan.body(number), plan.fields, self._trust, patience_s, self._room)
        held_bytes = weight(recording)
        if recording.failure == TOO_LARGE:
            recording.arrivals.clear()
        try:
            sample = await asyncio.get_running_loop().run_in_executor(self._pool, read, recording, plan.path)
        finally:
            del recording
            self._room.left_bytes += held_bytes
        if sample.outcome in ("timeout", "no connection") and time.monotonic() >= self._until:
            self._ended = "at its deadline"
            return False
        self._found[target.name].add(number, sample)
        self._whole += sample.whole
        self._failed += not sample.whole
        self._progress(self._whole + self._failed, len(self._work), self._failed)
        return True


def _turn(plan: Plan, number: int) -> tuple[Target, ...]:
    shift = number % len(plan.targets)
    return plan.targets[shift:] + plan.targets[:shift]


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; the reader ends when the run does."""
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
