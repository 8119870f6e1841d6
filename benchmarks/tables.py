"""The tables, a section each, in the order in which they are read: what is played, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from benchmarks import meter, report, rounds
from benchmarks.bench import Bench
from benchmarks.contestants import (
    BARE,
    BARE_FRAMES,
    DIRECT,
    EITHER_HTTP2,
    EITHER_NGINX,
    EITHER_PACED,
    EITHER_PLAIN,
    INTERPRETED,
    NGINX,
    PACED,
    PLAIN,
    RAW,
    SECURE_INTERPRETED,
    SECURE_NGINX,
    SECURE_PACED,
    Running,
)
from benchmarks.peers import PEERS
from benchmarks.rounds import Play

_BEHIND: Final = 0.95  # of the events that were to come: who delivers fewer has more than it can do
Section = Callable[[Bench], Awaitable[list[str]]]


async def streams(bench: Bench) -> list[str]:
    own = (NGINX, PACED, RAW, *bench.beside(INTERPRETED))
    trickle = await bench.play((*own, BARE), lambda each: rounds.window(each, "trickle/100/4", 200, 2.0))
    event = report.of(trickle[NGINX.name], report.cpu_an_event_us)
    about = (
        "200 streams with 100 events a second each, nothing to smooth: what an event costs that is passed on alone. The last line is a "
        "floor: the same event loop that reads and writes, and understands nothing."
    )
    out = [report.ratios("Trickle", about, "us an event", trickle, report.cpu_an_event_us, event)]
    bursts = await bench.play((*own, BARE_FRAMES), lambda each: rounds.window(each, "bursts/80/10/4", 50, 2.0))
    about = (
        "50 streams that get 80 events in one segment ten times a second. The paced gateway writes frames of what is due instead; one of "
        f"them is compared with one event of nginx's in the trickle ({event:.1f} us). The last line is a floor: the same "
        "event loop that reads, cuts into five and writes, and understands nothing."
    )
    out.append(report.ratios("Bursts", about, "us a write", bursts, report.cpu_a_frame_us, event))
    codex = await bench.play(
        (NGINX, PACED, *bench.beside(INTERPRETED)),
        lambda each: rounds.whole(each, "trace/codex-refactor", 50, 1.0),
        count=1 if bench.quick else 2,
    )
    about = "50 streams of the trace codex-refactor, beginnings and ends included; divided as above."
    out.append(report.ratios("Real bursts", about, "us a write", codex, report.cpu_a_frame_us, event))
    return out


async def peers(bench: Bench) -> list[str]:
    everyone = (NGINX, PACED, *bench.beside(INTERPRETED), RAW, PLAIN, *PEERS)
    slow = await bench.play(everyone, lambda each: rounds.window(each, "trickle/10/5", 50, 2.0))
    about = "50 streams of 10 events a second, which every contestant keeps up with. Each event wakes each of them up: that is most of it."
    out = [report.peers("Slow trickle", about, "us an event", slow, report.cpu_an_event_us, NGINX.name, PACED.name)]
    busy = await bench.play(everyone, partial(rounds.full, rate=100, streams=30, seconds=2.0))
    about = "30 streams with 100 events a second each, which fills the core of the dearest alone."
    out.append(report.peers("3,000 events a second", about, "us an event", busy, report.cpu_an_event_us, NGINX.name, PACED.name))
    able = [each for each in everyone if each in (NGINX, PACED) or _kept_up(busy.get(each.name, []))]
    full = await bench.play(able, partial(rounds.full, rate=100, streams=200, seconds=2.0))
    about = (
        "200 streams with 100 events a second each, for all who kept up with the load above: what an event costs that was delivered. "
        "Who falls behind gets several events with one read, and passes them on with one write."
    )
    out.append(report.peers("Loaded to the full", about, "us an event", full, report.cpu_an_event_us, NGINX.name, PACED.name))
    short = await bench.play(everyone, partial(_short, quick=bench.quick))
    about = "A short JSON answer, on kept connections, 16 at a time."
    out.append(report.peers("Short request", about, "us a request", short, report.cpu_a_request_us, NGINX.name, PACED.name))
    return out


def _kept_up(plays: list[Play]) -> bool:
    return bool(plays) and all(report.delivered(play) > _BEHIND and not play.failed for play in plays)


async def _short(each: Running, quick: bool) -> Play:
    return await rounds.short(each, 480 if each.contestant in PEERS else 1600 if quick else 4000)  # they take seconds for so many


async def tls(bench: Bench) -> list[str]:
    secure = await bench.play(
        (SECURE_NGINX, SECURE_PACED, *bench.beside(SECURE_INTERPRETED)), lambda each: rounds.window(each, "trickle/100/4", 200, 2.0)
    )
    base = report.of(secure[SECURE_NGINX.name], report.cpu_an_event_us)
    about = "The trickle of 200 streams with 100 events a second each, from an upstream with TLS, to clients without, as above."
    return [report.ratios("TLS upstream", about, "us an event", secure, report.cpu_an_event_us, base)]


async def short(bench: Bench) -> list[str]:
    names = (NGINX, PACED, *bench.beside(INTERPRETED), PLAIN)
    plays = await bench.play(names, lambda each: rounds.short(each, 1600 if bench.quick else 4000, stream=True))
    base = report.of(plays[NGINX.name], report.cpu_a_request_us)
    about = "The shortest stream, asked for on kept connections, 16 at a time."
    return [report.ratios("Short stream", about, "us a request", plays, report.cpu_a_request_us, base)]


async def memory(bench: Bench) -> list[str]:
    plays = await bench.play((NGINX, PACED, RAW, *bench.beside(INTERPRETED), PLAIN), lambda each: rounds.memory(each, 500), count=1)
    rows = [[name, each[0].bytes_a_stream / 1024] for name, each in plays.items()]
    return [report.table("Memory", "What an open stream keeps resident, of 500.", ["", "KiB a stream"], rows)]


async def first(bench: Bench) -> list[str]:
    names = (EITHER_NGINX, EITHER_PACED, EITHER_HTTP2, EITHER_PLAIN)
    plays = await bench.play(names, lambda each: rounds.whole(each, "first", 100, 1.0), direct=True)
    direct = plays[DIRECT]
    rows = [
        [name, *(report.first_ms(each, share) - report.first_ms(direct, share) for share in (0.5, 0.99)), sum(play.failed for play in each)]
        for name, each in plays.items()
        if name != DIRECT
    ]
    about = (
        "From the upstream's write of the first text to the client's read of it, less the same without anything in the middle "
        f"({report.first_ms(direct, 0.5):.2f} ms, p99 {report.first_ms(direct, 0.99):.2f} ms); 100 streams at once, rounds alternate. "
        "The upstream speaks HTTP/1.1 and HTTP/2; all ask it for the same over HTTP/1.1 where the line does not say otherwise."
    )
    return [report.table("First token", about, ["", "added p50, ms", "added p99, ms", "failed"], rows)]


async def growth(bench: Bench) -> list[str]:
    rows: list[list[object]] = []
    for count in (10, 100, 1000) if bench.quick else (10, 100, 1000, 2000):
        rate = min(100, 20_000 // count)
        load = partial(rounds.window, model=f"trickle/{rate}/5", streams=count, seconds=2.0)
        play = (await bench.play((PACED,), load, count=1))[PACED.name][0]
        rows.append([count, rate, report.cpu_an_event_us(play), 100 * play.core_share, play.failed])
    columns = ["streams", "events/s each", "us an event", "% of a core", "failed"]
    out = [report.table("Growth with streams", "The paced gateway, a trickle on each stream.", columns, rows)]
    rows = []
    for seconds in (1, 4, 16):
        grown = await bench.play((PACED,), partial(rounds.whole, model=f"trickle/100/{seconds}", streams=20, over_s=0.5), count=1)
        rows.append([100 * seconds, report.of(grown[PACED.name], report.cpu_an_event_us)])
    return [*out, report.table("Growth with tokens", "20 streams of so many events.", ["events a stream", "us an event"], rows)]


_SETTLES_S: Final = 5.0
_IDLE_S: Final = 10.0


async def start(bench: Bench) -> list[str]:
    rows: list[list[object]] = []
    async with bench.running((PACED,)) as found:
        for running in found:
            await rounds.short(running, 16)
            cpu, resident = meter.cpu_s(running.pid), meter.resident_bytes(running.pid) / 2**20
            await asyncio.sleep(_SETTLES_S)  # meanwhile what models cost is read, by a process of its own that ends
            settled = meter.cpu_s(running.pid)
            await asyncio.sleep(_IDLE_S)
            idle = (meter.cpu_s(running.pid) - settled) / _IDLE_S
            rows = [["from the command to the first connection taken, s", running.started_s], ["CPU until it has answered, s", cpu]]
            rows += [["resident after its first requests, MiB", resident], ["idle, % of a core", 100 * idle]]
    return [report.table("Start and idle", "The gateway with one upstream.", ["", ""], rows)]


SECTIONS: Final[dict[str, Section]] = {
    "streams": streams,
    "peers": peers,
    "tls": tls,
    "short": short,
    "memory": memory,
    "first": first,
    "growth": growth,
    "start": start,
}
