"""Arrivals like those that people report, in any number: the families of the recorded traces with other sizes and other chance.

Each is a list of bursts as in a trace file. Deterministic: a seed names one of a family.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Bursts = list[dict[str, Any]]


def steady(rate: float, tokens: int, kind: str = "content", start_ms: float = 0.0, pack: int = 1) -> Bursts:
    return [{"at_ms": start_ms + i * 1e3 * pack / rate, "tokens": pack, "kind": kind, "pack": 0} for i in range(tokens // pack)]


def bursts(
    rng: random.Random,
    count: int,
    size: tuple[int, int],
    gap_ms: tuple[float, float],
    kind: str = "content",
    start_ms: float = 0.0,
    spread_ms: tuple[float, float] = (0, 0),
    pack: int = 1,
) -> Bursts:
    out, at = [], start_ms
    for _ in range(count):
        out.append({"at_ms": at, "tokens": rng.randint(*size), "kind": kind, "spread_ms": rng.uniform(*spread_ms), "pack": pack})
        at += rng.uniform(*gap_ms)
    return out


def after(earlier: Bursts, gap_ms: float) -> float:
    return earlier[-1]["at_ms"] + earlier[-1].get("spread_ms", 0) + gap_ms


def clumped(rng: random.Random) -> Bursts:
    """A steady stream whose tokens the network hands over in clumps."""
    out, flush = [], 0.0
    for i in range(1500):
        while i * 5.35 > flush:
            flush += rng.uniform(5, 60)
        out.append({"at_ms": flush, "tokens": 1})
    return out


def switching(rng: random.Random) -> Bursts:
    out: Bursts = []
    at = 0.0
    for _ in range(12):
        out += bursts(rng, rng.randint(1, 4), (10, 150), (100, 900), rng.choice(["content", "reasoning", "tool"]), at)
        at = after(out, rng.uniform(0, 900))
    return out


def thinking_then_answer(rng: random.Random) -> Bursts:
    think = bursts(rng, 8, (60, 240), (900, 1700), "reasoning", 300)
    return think + bursts(rng, 5, (60, 150), (700, 1300), "content", after(think, 900), (5, 15))


def frozen_then_steady(rng: random.Random) -> Bursts:
    think = bursts(rng, 6, (30, 80), (400, 900), "reasoning", 200)
    return think + steady(rng.choice([50, 90, 150]), 270, "content", after(think, 700))


def uneven(rng: random.Random) -> Bursts:
    think = bursts(rng, 14, (40, 400), (200, 2500), "reasoning", 100)
    return think + bursts(rng, 3, (40, 150), (200, 2000), "content", after(think, 3000))


def tool_call(rng: random.Random) -> Bursts:
    think = bursts(rng, 4, (40, 120), (400, 900), "reasoning", 200)
    return think + bursts(rng, 6, (80, 300), (300, 700), "tool", after(think, 500))


def giant(rng: random.Random) -> Bursts:
    first = [{"at_ms": 5000.0, "tokens": rng.randint(600, 2500), "kind": rng.choice(["reasoning", "content"])}]
    return first + steady(12, 36, "content", 5000 + rng.choice([200, 600, 1500, 3000]))


FAMILIES: dict[str, Callable[[random.Random], Bursts]] = {
    "steady": lambda rng: steady(rng.uniform(15, 250), 1000),
    "clumped": clumped,
    "chunks": lambda rng: steady(rng.uniform(100, 220), 960, pack=rng.choice([6, 12, 24])),
    "clusters": lambda rng: bursts(rng, 25, (40, 120), (400, 900)),
    "deltas": lambda rng: bursts(rng, 18, (60, 150), (330, 700), pack=0),
    "spread bursts": lambda rng: bursts(rng, 20, (30, 110), (500, 900), spread_ms=(50, 250)),
    "packs": lambda rng: bursts(rng, 20, (20, 90), (300, 900), pack=rng.randint(2, 9)),
    "thinking, then an answer": thinking_then_answer,
    "frozen, then steady": frozen_then_steady,
    "uneven": uneven,
    "tool call": tool_call,
    "giant": giant,
    "fast": lambda rng: steady(rng.uniform(600, 1500), 3600, pack=rng.choice([4, 12])),
    "switching": switching,
    "held": lambda rng: [{"at_ms": 5000.0, "tokens": rng.randint(50, 1200)}],
    "long": lambda rng: bursts(rng, 45, (40, 110), (400, 900)),
}


def of(family: str, seed: int) -> Bursts:
    return FAMILIES[family](random.Random(f"{family} {seed}"))
