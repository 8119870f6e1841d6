"""The figures of a crowd of streams, when all are over: which came whole, to the byte where they were kept, and when their tokens came."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

from benchmarks import loads
from benchmarks.promise import Promise, Write, judge

MARK: Final = ord("[")  # once in each event, and a single byte: no read can cut it


class Played(Protocol):
    """times_ns and counts: of each read, and the events that it brought. kept: all reads, of some streams."""

    began_ns: int
    times_ns: array[int]
    counts: array[int]
    kept: list[bytes] | None
    status: bytes
    told: bool
    ended: bool


@dataclass
class Figures:
    """wrong: not whole, not in order, or not answered with what a stream may be answered with. told: refused with a Retry-After."""

    streams: int = 0
    at_once: int = 0
    whole: int = 0
    refused: int = 0
    told: int = 0
    wrong: int = 0
    tokens: int = 0
    late: int = 0
    past_ms: float = float("nan")  # how far past its deadline the worst token was; below 0 all were in time
    lag_p50_ms: float = float("nan")
    lag_p99_ms: float = float("nan")
    first_p99_ms: float = float("nan")
    gap_p99_ms: float = float("nan")


def figures(model: str, streams: Sequence[Played], writes_ns: Mapping[int, Sequence[int]]) -> Figures:
    parts = [(1, "content"), *((data.count(MARK), loads.kind_of(data)) for _, data in loads.script(model)[:-1])]
    events = loads.events_in(model)
    out = Figures(streams=len(streams))
    lags, firsts, gaps = array("q"), array("q"), array("q")
    pasts: list[float] = []
    spans: list[tuple[int, int]] = []
    for number, stream in enumerate(streams):
        if stream.status == b"503":
            out.refused += 1
            out.told += stream.told
            continue
        whole = stream.status == b"200" and stream.ended and sum(stream.counts) == events
        whole = whole and (stream.kept is None or intact(b"".join(stream.kept), model))
        if not whole:
            out.wrong += 1
            continue
        out.whole += 1
        spans += [(stream.began_ns, 1), (stream.times_ns[-1], -1)]
        at_ns = writes_ns[number]
        writes = [Write(at, tokens, kind) for at, (tokens, kind) in zip(at_ns, parts, strict=False)]
        reads = _texts(stream, events)
        times_ns = [at for at, _ in reads]
        verdict = judge(writes, times_ns, [count for _, count in reads], Promise())
        out.tokens += events - 3
        out.late += verdict.late
        pasts.append(verdict.past_ns / 1e6)
        lags.extend(verdict.lags_ns)
        firsts.append(times_ns[0] - at_ns[0])
        gaps.extend(after - before for before, after in pairwise(times_ns))
    out.past_ms = max(pasts, default=out.past_ms)
    open_now = 0
    for _, step in sorted(spans):
        open_now += step
        out.at_once = max(out.at_once, open_now)
    out.lag_p50_ms, out.lag_p99_ms = quantile_ms(lags, 0.5), quantile_ms(lags, 0.99)
    out.first_p99_ms, out.gap_p99_ms = quantile_ms(firsts, 0.99), quantile_ms(gaps, 0.99)
    return out


def _texts(stream: Played, events: int) -> list[tuple[int, int]]:
    """Reads that brought text: the opening before it and the two events of the end do not count."""
    out, left, opening = [], events - 3, 1
    for at_ns, count in zip(stream.times_ns, stream.counts, strict=True):
        texts = min(count - min(opening, count), left)
        opening -= min(opening, count)
        left -= texts
        if texts:
            out.append((at_ns, texts))
    return out


def intact(raw: bytes, model: str) -> bool:
    """Whether the body is the upstream's to the byte, but for the time of sending."""
    body, raw = [], raw.partition(b"\r\n\r\n")[2]
    at = 0
    while (mark := raw.find(b"\r\n", at)) > 0 and (size := int(raw[at:mark], 16)):
        body.append(raw[mark + 2 : mark + 2 + size])
        at = mark + 2 + size + 2
    wanted = loads.OPENING + loads.first_text(0) + b"".join(data for _, data in loads.script(model))
    return re.sub(rb"fp_sent_\d+", b"fp_sent_0", b"".join(body), count=1) == wanted


def quantile_ms(values_ns: array[int], share: float) -> float:
    found = sorted(values_ns)
    return found[min(int(share * len(found)), len(found) - 1)] / 1e6 if found else float("nan")
