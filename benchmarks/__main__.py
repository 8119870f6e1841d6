"""Takes the ratios and writes docs/performance.md: `python -m benchmarks [--rounds N] [--quick] [--out FILE]`.

nginx must be installed (Debian: `apt install nginx-light`). Peers take part where they are: LiteLLM's proxy
(`pip install 'litellm[proxy]'`, its program on PATH or in BENCH_LITELLM), Portkey's gateway (`npm install @portkey-ai/gateway`,
BENCH_PORTKEY = its build/start-server.js).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trustme
import uvloop

from benchmarks import contestants, meter, report, rounds
from benchmarks.contestants import BARE, BARE_FRAMES, NGINX, PACED, PEERS, PLAIN, RAW, SECURE, Contestant, Running
from benchmarks.report import Plays
from benchmarks.rounds import Play

OUT: Final = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
DIRECT: Final = "direct"
Playing = Callable[[Running], Awaitable[Play]]


class Bench:
    """Starts each contestant afresh for each load, so that none pays for what it did before."""

    def __init__(self, folder: Path, upstream_port: int, upstream_pid: int, count: int, secure_port: int) -> None:
        self._folder = folder
        self._upstream = upstream_port
        self._upstream_pid = upstream_pid
        self._secure = secure_port
        self._count = count

    async def play(self, names: Sequence[Contestant], playing: Playing, *, direct: bool = False, count: int | None = None) -> Plays:
        running: list[Running] = []
        for each in names:
            try:
                found = contestants.start(each, self._folder, self._secure if each in SECURE else self._upstream)
            except RuntimeError as problem:  # a peer that is installed and does not start
                say(f"    {each.name}: {problem}")
                continue
            if found is not None:
                running.append(found)
        out: Plays = {each.contestant.name: [] for each in running}
        if direct:
            out[DIRECT] = []
        try:
            for _ in range(count or self._count):
                for each in running:
                    out[each.contestant.name].append(await playing(each))
                if direct:
                    out[DIRECT].append(await playing(_Direct(self._upstream, self._upstream_pid)))
        finally:
            for each in running:
                each.stop()
        for name, plays in out.items():
            say(f"    {name}: {len(plays)} rounds, {sum(play.failed for play in plays)} failed")
        return out


class _Direct(Running):
    """Nothing in the middle."""

    def __init__(self, port: int, pid: int) -> None:
        self.contestant = Contestant(DIRECT, lambda *_: None)
        self.port = port
        self._pid = pid

    @property
    def pid(self) -> int:
        return self._pid


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def take(bench: Bench, quick: bool) -> list[str]:
    everyone = (NGINX, PACED, RAW, PLAIN, *PEERS)
    own = (NGINX, PACED, RAW)
    out: list[str] = []

    say("trickle")
    few = "trickle/10/5"
    trickle = await bench.play((*own, BARE), lambda each: rounds.window(each, "trickle/100/4", 200, 2.0))
    event = report.of(trickle[NGINX.name], report.cpu_an_event_us)
    about = "200 streams with 100 events a second each, nothing to smooth: what an event costs that is passed on alone."
    out.append(report.ratios("Trickle", about, "us an event", trickle, report.cpu_an_event_us, event))
    say("a slower trickle, for those that would not keep up")
    slow = await bench.play(everyone, lambda each: rounds.window(each, few, 50, 2.0))
    base = report.of(slow[NGINX.name], report.cpu_an_event_us)
    about = "The same with 50 streams of 10 events a second, which every contestant keeps up with."
    out.append(report.ratios("Slow trickle", about, "us an event", slow, report.cpu_an_event_us, base))

    say("an upstream with TLS")
    secure = await bench.play(SECURE, lambda each: rounds.window(each, "trickle/100/4", 200, 2.0))
    base = report.of(secure[SECURE[0].name], report.cpu_an_event_us)
    about = "The trickle of 200 streams with 100 events a second each, from an upstream with TLS, to clients without, as above."
    out.append(report.ratios("TLS upstream", about, "us an event", secure, report.cpu_an_event_us, base))

    say("bursts")
    bursts = await bench.play((*own, BARE_FRAMES), lambda each: rounds.window(each, "bursts/80/10/4", 50, 2.0))
    about = (
        "50 streams that get 80 events in one segment ten times a second. The paced gateway writes frames of what is due instead; one of "
        f"them is compared with one event of nginx's in the trickle ({event:.1f} us). The last line is a floor: the same "
        "event loop that reads, cuts into five and writes, and understands nothing."
    )
    out.append(report.ratios("Bursts", about, "us a write", bursts, report.cpu_a_frame_us, event))
    say("codex-refactor")
    codex = await bench.play((NGINX, PACED), lambda each: rounds.whole(each, "trace/codex-refactor", 50, 1.0), count=1 if quick else 2)
    about = "50 streams of the trace codex-refactor, beginnings and ends included; divided as above."
    out.append(report.ratios("Real bursts", about, "us a write", codex, report.cpu_a_frame_us, event))

    say("short requests")
    short = await bench.play(everyone, lambda each: rounds.short(each, 1600 if quick else 4000))
    base = report.of(short[NGINX.name], report.cpu_a_request_us)
    about = "A short JSON answer, on kept connections, 16 at a time."
    out.append(report.ratios("Short request", about, "us a request", short, report.cpu_a_request_us, base))
    short = await bench.play((NGINX, PACED, PLAIN), lambda each: rounds.short(each, 1600 if quick else 4000, stream=True))
    base = report.of(short[NGINX.name], report.cpu_a_request_us)
    about = "The shortest stream, asked for on kept connections, 16 at a time."
    out.append(report.ratios("Short stream", about, "us a request", short, report.cpu_a_request_us, base))

    say("memory")
    memory = await bench.play((*own, PLAIN), lambda each: rounds.memory(each, 500), count=1)
    rows = [[name, plays[0].bytes_a_stream / 1024] for name, plays in memory.items()]
    out.append(report.table("Memory", "What an open stream keeps resident, of 500.", ["", "KiB a stream"], rows))

    say("first token")
    first = await bench.play((NGINX, PACED, PLAIN), lambda each: rounds.whole(each, "trickle/20/1.5", 100, 1.0), direct=True)
    direct = first[DIRECT]
    rows = [
        [name, *(report.first_ms(plays, share) - report.first_ms(direct, share) for share in (0.5, 0.99))]
        for name, plays in first.items()
        if name != DIRECT
    ]
    about = (
        "From the upstream's write of the first text to the client's read of it, less the same without anything in the middle "
        f"({report.first_ms(direct, 0.5):.2f} ms, p99 {report.first_ms(direct, 0.99):.2f} ms); 100 streams at once, rounds alternate."
    )
    out.append(report.table("First token", about, ["", "added p50, ms", "added p99, ms"], rows))

    say("growth")
    rows = []
    for streams in (10, 100, 1000) if quick else (10, 100, 1000, 2000):
        rate = min(100, 20_000 // streams)
        load = f"trickle/{rate}/5"
        grown = await bench.play((PACED,), partial(rounds.window, model=load, streams=streams, seconds=2.0), count=1)
        play = grown[PACED.name][0]
        rows.append([streams, rate, report.cpu_an_event_us(play), 100 * play.core_share, play.failed])
    columns = ["streams", "events/s each", "us an event", "% of a core", "failed"]
    out.append(report.table("Growth with streams", "The paced gateway, a trickle on each stream.", columns, rows))
    rows = []
    for seconds in (1, 4, 16):
        grown = await bench.play((PACED,), partial(rounds.whole, model=f"trickle/100/{seconds}", streams=20, over_s=0.5), count=1)
        rows.append([100 * seconds, report.of(grown[PACED.name], report.cpu_an_event_us)])
    out.append(report.table("Growth with tokens", "20 streams of so many events.", ["events a stream", "us an event"], rows))

    say("start")
    running = contestants.start(PACED, bench._folder, bench._upstream)
    if running is not None:
        await rounds.short(running, 16)
        cpu, resident = meter.cpu_s(running.pid), meter.resident_bytes(running.pid) / 2**20
        await asyncio.sleep(5.0)
        idle = (meter.cpu_s(running.pid) - cpu) / 5.0
        running.stop()
        rows = [["from the command to the first connection taken, s", running.started_s], ["CPU until it has answered, s", cpu]]
        rows += [["resident after its first requests, MiB", resident], ["idle, % of a core", 100 * idle]]
        out.append(report.table("Start and idle", "The gateway with one upstream.", ["", ""], rows))
    return out


async def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="fewer requests and streams, two rounds")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    count = 2 if options.quick else options.rounds
    with tempfile.TemporaryDirectory() as folder:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(f"{folder}/ca.pem")
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(f"{folder}/own.pem")
        command = [sys.executable, "-m", "benchmarks.upstream"]
        port, secure = contestants.free_port(), contestants.free_port()
        upstreams = [contestants.run([*command, str(port)], port), contestants.run([*command, str(secure), f"{folder}/own.pem"], secure)]
        try:
            tables = await take(Bench(Path(folder), port, upstreams[0].pid, count, secure), options.quick)
        finally:
            for upstream in upstreams:
                upstream.kill()
                upstream.wait()
    arguments = " --quick" if options.quick else f" --rounds {count}"
    options.out.write_text("\n".join([report.head(count, arguments), *tables]))
    say(f"written: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
