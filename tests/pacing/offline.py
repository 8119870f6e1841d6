"""Plays arrivals through a pacer on a virtual clock, as the gateway would, and judges what came out.

The clock ticks as the shared timer does, every 20 ms with jitter from a seed, and `due` is asked after every arrival too. What came at one
moment is pushed as `gateway/stream/` pushes it: light events joined to runs. Everything is deterministic. Tokens are judged by their
characters, a client's view; the pacer sees only its own estimate of their weight.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from gateway.dialects.text import cut_at, joins, weigh
from gateway.pacing.pacer import Pacer, Unpaced
from gateway.pacing.run import runs
from gateway.piece import CUT_FROM_TOKENS, Kind, Piece

TRACES = Path(__file__).parent.parent / "traces"
KINDS = {"content": Kind.CONTENT, "reasoning": Kind.REASONING, "tool": Kind.TOOL, "structure": Kind.STRUCTURE}
VOCABULARY = [" the", " a", ",", ".", "\n", "(", ")", " of", " to", "=", " while", " list", " checks", " returns", " import", " merge"]
VOCABULARY += [" tokens", " sorted", " pass", " and", " then", " yields"]
RARE = ["字", "符", "文", " naïve", " 👨\u200d👩\u200d👧", " 🇯🇵", " a\u0301n", "\\", '"', "\t", " façade"]


@dataclass(frozen=True)
class Arrival:
    """One event of the upstream: seconds, text, kind, and the tokens that the model says it is."""

    at: float
    text: str
    kind: Kind
    tokens: int


@dataclass
class Played:
    """What a client saw: (seconds, characters, kind) of each delivered piece, and one entry (seconds, pieces) a frame."""

    delivered: list[tuple[float, int, Kind]] = field(default_factory=list)
    frames: list[tuple[float, list[Piece]]] = field(default_factory=list)
    waits: list[tuple[Kind, float]] = field(default_factory=list)


def vocabulary(seed: object) -> Iterator[str]:
    rng = random.Random(f"offline {seed}")
    while True:
        yield rng.choice(RARE) if rng.random() < 0.06 else rng.choice(VOCABULARY)


def arrivals(bursts: Sequence[dict], seed: object = 0) -> list[Arrival]:
    """The bursts of a trace file as events: each of `pack` tokens (0: the burst's all), evenly over `spread_ms`."""
    tokens = vocabulary(seed)
    out = []
    for burst in bursts:
        size = burst.get("pack", 1) or burst["tokens"]
        parts = [size] * (burst["tokens"] // size) + [burst["tokens"] % size] * bool(burst["tokens"] % size)
        step = burst.get("spread_ms", 0) / len(parts)
        for position, count in enumerate(parts):
            at = (burst["at_ms"] + position * step) / 1e3
            text = "".join(next(tokens) for _ in range(count))
            out.append(Arrival(at, text, KINDS[burst.get("kind", "content")], count))
    return sorted(out, key=lambda arrival: arrival.at)


def trace(name: str) -> list[Arrival]:
    raw = json.loads((TRACES / f"{name}.json").read_text())
    return arrivals(raw["bursts"], name)


def text_piece(text: str, kind: Kind, joined: bool = False, weight: float | None = None) -> Piece:
    """A piece whose bytes are its text, cut as the dialects cut theirs: light ones not at all."""
    weight = weigh(text) if weight is None else weight

    def cut(tokens: float) -> tuple[Piece, Piece] | None:
        index = cut_at(text, tokens)
        if not index:
            return None
        head = text_piece(text[:index], kind, joined)
        return head, text_piece(text[index:], kind, False, max(0.0, weight - head.weight))

    return Piece(kind, weight, text.encode(), cut if weight > CUT_FROM_TOKENS else None, joined)


def play(
    came: Sequence[Arrival],
    pacer: Pacer | Unpaced,
    *,
    tick_s: float = 0.020,
    jitter_s: float = 0.0,
    done_s: float = 0.0,
    seed: object = 0,
    opening: bool = True,
) -> Played:
    """`done_s`: the upstream's end is known so long after its last token. `jitter_s`: how late a tick may be."""
    rng = random.Random(f"ticks {seed}")
    start = came[0].at
    last = ""
    steps: list[tuple[float, Callable[[float], None]]] = []
    played = Played()
    if hasattr(pacer, "held"):
        pacer.held = lambda kind, waited: played.waits.append((kind, waited))

    def deliver(now: float) -> None:
        frame = pacer.due(now)
        if frame:
            played.frames.append((now, frame))
            played.delivered += [(now, len(piece.data.decode()), piece.kind) for piece in frame if piece.kind is not Kind.STRUCTURE]

    def pusher(group: list[Arrival]) -> Callable[[float], None]:
        def push(now: float) -> None:
            nonlocal last
            pieces = []
            for arrival in group:
                pieces.append(text_piece(arrival.text, arrival.kind, joins(last, arrival.text)))
                last = arrival.text
            for piece in runs(pieces):
                pacer.push(now, piece)

        return push

    if opening:
        steps.append((start, lambda now: pacer.push(now, Piece(Kind.STRUCTURE, 0.0, b"role"))))
    steps += [(at, pusher(list(group))) for at, group in groupby(came, key=lambda arrival: arrival.at)]

    def finish(now: float) -> None:
        pacer.push(now, Piece(Kind.STRUCTURE, 0.0, b"stop"))
        pacer.end(now)

    steps.append((came[-1].at + done_s, finish))
    ticks = start + rng.random() * tick_s
    count = 0
    tick = ticks
    for at, step in steps:
        while tick < at:
            if not pacer.empty:
                deliver(tick)
            count += 1
            tick = max(tick, ticks + count * tick_s + rng.random() * jitter_s)
        step(at)
        deliver(at)
    while not pacer.empty:
        deliver(tick)
        count += 1
        tick = max(tick, ticks + count * tick_s + rng.random() * jitter_s)
        assert count < 10**6, "the pacer never let go"
    return played


def seen_through(played: Played, network_s: float, seed: object = 0) -> list[tuple[float, int, Kind]]:
    """What is delivered as a client sees it behind a network that holds each frame up by as much as `network_s`."""
    rng = random.Random(f"network {seed}")
    held_up: dict[float, float] = {}
    before = 0.0
    for at, _ in played.frames:
        before = held_up[at] = max(before, at + rng.random() * network_s)
    return [(held_up[at], characters, kind) for at, characters, kind in played.delivered]


def text_of(pieces: Sequence[Piece]) -> str:
    return b"".join(piece.data for piece in pieces if piece.kind is not Kind.STRUCTURE).decode()
