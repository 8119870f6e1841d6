"""CPU time and memory of a process and all its descendants, by the kernel's books (Linux)."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for task in (_PROC / str(parent) / "task").glob("*"):
            try:
                found += map(int, (task / "children").read_text().split())
            except OSError:
                continue
    return found


def cpu_s(pid: int) -> float:
    """Seconds on a CPU, kernel included, to the nanosecond: what the scheduler counts, not what a clock tick sees."""
    total = 0
    for each in tree(pid):
        for task in (_PROC / str(each) / "task").glob("*"):
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except OSError:
                continue
    return total / 1e9


def resident_bytes(pid: int) -> int:
    """What is resident and not shared with others: `Pss` of the whole tree."""
    total = 0
    for each in tree(pid):
        try:
            lines = (_PROC / str(each) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total
