"""Figures of many plays as the tables of docs/performance.md. Knows nothing of how they were taken."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from benchmarks.rounds import Play

Plays = dict[str, list[Play]]  # by contestant, a play a round

HEAD: Final = """# What the gateway costs

Made by `python -m benchmarks {arguments}` (after `pip install -e '.[test]'`, with nginx); nothing here is written by hand. {machine}

CPU time of what stands in the middle, kernel included, by the scheduler's books; clients and upstream are other processes. Rounds of
all contestants alternate in one run, and each figure is the median of {rounds} rounds, so the *ratios* can be taken again:
microseconds drift by a factor of two with what else the machine does. nginx passes bytes on without buffering and looks at none of
them; Starlette with httpx is the relay that everybody writes first (`benchmarks/plain.py`). Compared with: {versions}.
{build}"""
_BUILT: Final = """
The gateway is a build in which {modules} modules are machine code; where a line says "interpreted" it is the repository's as it stands.
"""


def head(rounds: int, arguments: Sequence[str], versions: str, built: int) -> str:
    """built: modules of the gateway that ran compiled."""
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[1]
    machine = f"Python {platform.python_version()}, {platform.machine()}, {cores} cores; load over five minutes: {load:.1f}."
    build = _BUILT.format(modules=built) if built else ""
    return HEAD.format(rounds=rounds, arguments=" ".join(arguments), machine=machine, versions=versions, build=build)


def cpu_an_event_us(play: Play) -> float:
    return 1e6 * play.cpu_s / max(play.events, 1)


def cpu_a_frame_us(play: Play) -> float:
    return 1e6 * play.cpu_s / max(play.reads, 1)


def cpu_a_request_us(play: Play) -> float:
    return 1e6 * play.cpu_s / max(play.requests, 1)


def core_share(play: Play) -> float:
    return play.core_share


def delivered(play: Play) -> float:
    """The share of what was wanted."""
    return min(play.events / play.wanted, 1.0) if play.wanted else 1.0


def of(plays: Sequence[Play], figure: Callable[[Play], float]) -> float:
    return median(map(figure, plays))


def first_ms(plays: Sequence[Play], share: float) -> float:
    seen = sorted(delay for play in plays for delay in play.first_s)
    return 1e3 * seen[min(int(share * len(seen)), len(seen) - 1)] if seen else float("nan")


def table(title: str, about: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [f"## {title}", "", about, "", "| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def ratios(title: str, about: str, unit: str, plays: Plays, figure: Callable[[Play], float], base: float) -> str:
    """A row a contestant: its figure, and that over `base`, which is nginx's."""
    rows = []
    for name, each in plays.items():
        value = of(each, figure)
        failed = sum(play.failed for play in each)
        rows.append([name, value, value / base if base else float("nan"), failed])
    return table(title, about, ["", unit, "x nginx", "failed"], rows)


def peers(title: str, about: str, unit: str, plays: Plays, figure: Callable[[Play], float], nginx: str, own: str) -> str:
    """A row a contestant: its figure, how many times nginx's and our own that is, and what it had of a core where a window was taken."""
    base, ours = of(plays[nginx], figure), of(plays[own], figure)
    every = [play for each in plays.values() for play in each]
    more: dict[str, Callable[[Play], float]] = {}
    if any(play.core_share for play in every):
        more["% of a core"] = core_share
    if any(play.wanted for play in every):
        more["% delivered"] = delivered
    rows: list[list[object]] = []
    for name, each in plays.items():
        value = of(each, figure)
        failed = sum(play.failed for play in each)
        rows.append([name, value, value / base, value / ours, *(100 * of(each, share) for share in more.values()), failed])
    return table(title, about, ["", unit, f"x {nginx}", f"x {own}", *more, "failed"], rows)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "-" if value != value else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return str(value)
