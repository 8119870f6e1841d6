"""How many streams at once keep the promise: a crowd of clients (`benchmarks/crowd.py`), and who used the machine meanwhile.

Begins are spread over ten seconds, as users' are; a stream of the trace codex-refactor lasts 13.5 s, so that then all are open at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import meter, report
from benchmarks.bench import Bench, say
from benchmarks.contestants import INTERPRETED, NGINX, PACED, ROOT, Running
from benchmarks.judging import Figures

MODEL: Final = "trace/codex-refactor"
STREAMS: Final = (100, 300, 500, 800, 1200, 2000)
OVER_S: Final = 10.0
_LOOK_S: Final = 1.0
_FULL: Final = 0.9  # of a core, or of all: nothing that has to be in time can use the rest
COLUMNS: Final = (
    *("", "streams", "at once", "whole", "refused (503)", "wrong", "late tokens", "worst token past its deadline, ms"),
    *("lag p50, ms", "lag p99, ms", "first token p99, ms", "frame gap p99, ms", "its core, %", "clients', %", "upstream's, %"),
)


@dataclass(frozen=True)
class Shares:
    """Of a core, in the second in which the three took most together."""

    middle: float = 0.0
    clients: float = 0.0
    upstream: float = 0.0

    @property
    def all(self) -> float:
        return self.middle + self.clients + self.upstream


@dataclass(frozen=True)
class Row:
    name: str
    figures: Figures
    shares: Shares

    @property
    def kept(self) -> bool:
        """Every stream was let in, whole, and in time."""
        return self.figures.whole == self.figures.streams and not self.figures.late


async def crowd(running: Running, upstream: int, upstream_pid: int, streams: int) -> Row:
    command = [sys.executable, "-m", "benchmarks.crowd", str(running.port), str(upstream), MODEL, str(streams), str(OVER_S)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None  # noqa: S101
    looking = asyncio.create_task(_busiest((running.pid, process.pid, upstream_pid)))
    try:
        await process.stdout.readline()  # they are over; what the clients' process does now is to count
    finally:
        looking.cancel()
        shares = (await asyncio.gather(looking, return_exceptions=True))[0]
    said = await process.stdout.read()
    if await process.wait():
        raise RuntimeError("the clients did not come to their end")
    row = Row(running.contestant.name, Figures(**json.loads(said)), shares if isinstance(shares, Shares) else Shares())
    say(f"    {row.name}, {streams}: {row.figures.whole} whole, {row.figures.refused} refused, {row.figures.late} tokens late")
    return row


async def _busiest(pids: Sequence[int]) -> Shares:
    """Until it is cancelled."""
    loop = asyncio.get_running_loop()
    most = Shares()
    before, began = [meter.cpu_s(pid) for pid in pids], loop.time()
    try:
        while True:
            await asyncio.sleep(_LOOK_S)
            after, now = [meter.cpu_s(pid) for pid in pids], loop.time()
            seen = Shares(*((late - early) / (now - began) for early, late in zip(before, after, strict=True)))
            most = max(most, seen, key=lambda shares: shares.all)
            before, began = after, now
    except asyncio.CancelledError:
        return most


async def take(bench: Bench, streams: Sequence[int]) -> str:
    """One play at each number of streams; nginx at the highest alone, as what the machine itself does."""
    rows: list[Row] = []
    port, process = bench.upstreams["plain"]
    for count in streams:
        control = (NGINX,) if count == max(streams) else ()
        for contestant in (PACED, *bench.beside(INTERPRETED), *control):
            async with bench.running((contestant,)) as found:
                rows += [await crowd(running, port, process.pid, count) for running in found]
    about = (
        f"Streams of the trace codex-refactor (1,328 tokens in 13.5 s), begun over {OVER_S:.0f} s, judged by the promise of the defaults: "
        "a token is late more than 50 ms after its deadline, counted from the upstream's own write. In a whole stream each event came; "
        "every twentieth is compared to the byte. Shares of a core are those of the second in which the three took most together. "
        "nginx, which holds nothing back, shows what the machine does by itself. " + verdict(rows)
    )
    return report.table("Streams at once", about, COLUMNS, [_cells(row) for row in rows])


def verdict(rows: Sequence[Row]) -> str:
    """Up to where it holds, and what was used up where it ends."""
    cores = len(os.sched_getaffinity(0))
    out = []
    for name in dict.fromkeys(row.name for row in rows if row.name != NGINX.name):
        own = sorted((row for row in rows if row.name == name), key=lambda row: row.figures.streams)
        ends = next((row for row in own if not row.kept), None)
        held = [row.figures.streams for row in own if ends is None or row.figures.streams < ends.figures.streams]
        said = f"**{name}: all whole and none late with {held[-1]:,} streams at once.**" if held else f"**{name}: not kept.**"
        if ends is not None:
            shares, figures = ends.shares, ends.figures
            said += (
                f" With {figures.streams:,}, {figures.refused:,} were refused, {figures.wrong:,} wrong and {figures.late:,} tokens late"
                f" of {figures.tokens:,}:"
            )
            if shares.middle >= _FULL:
                said += " its one process had its core full."
            elif shares.all >= _FULL * cores:
                said += f" the three together had the machine's {cores} cores full."
            else:
                said += f" the three together took {shares.all:.1f} of {cores} cores."
        out.append(said)
    return " ".join(out)


def _cells(row: Row) -> list[object]:
    figures, shares = row.figures, row.shares
    late = f"{figures.late:,} ({100 * figures.late / figures.tokens:.3f} %)" if figures.late else "0"
    refused = f"{figures.refused}" + ("" if figures.told == figures.refused else f", {figures.refused - figures.told} without Retry-After")
    cells: list[object] = [row.name, figures.streams, figures.at_once, figures.whole, refused, figures.wrong, late, figures.past_ms]
    cells += [figures.lag_p50_ms, figures.lag_p99_ms, figures.first_p99_ms, figures.gap_p99_ms]
    return [*cells, *(100 * share for share in (shares.middle, shares.clients, shares.upstream))]
