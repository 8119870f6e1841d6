"""Connections cut at a random byte and resumed, up to 8 times a stream, in memory and in Redis, with two gateways in processes of their own.

    python tests/chaos/resume.py [--streams 2000] [--at-once 50] [--seed 1] [--store memory|redis|both]

Prints for each store how many streams were identical to the character, how often the upstream generated each, and the share of tokens that
it generated twice; the exit code is 0 only if all were identical, each was generated once, and the gateways hold what they held before. In
memory a client comes back to the gateway that it came from; in Redis to either.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.chunks import DONE, ROLE, STOP, chunk
from support.client import Client
from support.cutting import Cut, resumed
from support.process import Process, running
from support.redis import redis_server

WORDS = ["the ", "quick ", "brown ", "fox ", "jumps ", "über ", "漢字", "😀 ", "👩‍👩‍👧 ", "🇩🇪 ", '"quoted" ', "\n\n", "end. "]
CUTS_AT_MOST = 8


def texts_of(seed: str) -> list[str]:
    """The deltas of one stream: 40 to 400 of them."""
    chance = random.Random(seed)
    return ["".join(chance.choices(WORDS, k=chance.randint(1, 4))) for _ in range(chance.randint(40, 400))]


@dataclass
class Upstream:
    """Plays a stream for the seed that a request names, in clusters, and counts what it generated for it."""

    generations: Counter[str] = field(default_factory=Counter)
    deltas: Counter[str] = field(default_factory=Counter)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                seed = json.loads(await reader.readexactly(length))["user"]
                self.generations[seed] += 1
                await self._play(seed, writer)
        writer.close()

    async def _play(self, seed: str, writer: asyncio.StreamWriter) -> None:
        chance = random.Random(f"times of {seed}")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        self._write(writer, [ROLE])
        texts = texts_of(seed)
        while texts:
            size = chance.randint(1, 60)
            cluster, texts = texts[:size], texts[size:]
            await asyncio.sleep(chance.uniform(0, 0.12))
            self._write(writer, list(map(chunk, cluster)))
            self.deltas[seed] += len(cluster)
            await writer.drain()
        self._write(writer, [STOP, DONE])
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    @staticmethod
    def _write(writer: asyncio.StreamWriter, datas: list[str]) -> None:
        data = b"".join(b"data: %b\n\n" % data.encode() for data in datas)
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))


@dataclass
class Outcome:
    streams: int = 0
    identical: int = 0
    connections: int = 0
    faults: list[str] = field(default_factory=list)


async def one(seed: str, ports: list[int], shared: bool, outcome: Outcome) -> None:
    chance = random.Random(f"cuts of {seed}")
    home = chance.randrange(len(ports))
    cuts = [
        Cut(
            int(chance.triangular(0, 40_000, 2000)),
            chance.randrange(len(ports)) if shared else home,
            chance.choice(["event", "cursor"]),
            chance.random() < 0.5,
        )
        for _ in range(chance.randint(1, CUTS_AT_MOST))
    ]
    more = [("x-client-streams", "raw")] if chance.random() < 0.5 else []
    last = chance.randrange(len(ports)) if shared else home
    outcome.streams += 1
    try:
        had = await resumed(ports, seed, cuts, last, more, user=seed)
    except Exception as error:
        outcome.faults.append(f"{seed}: {type(error).__name__}: {str(error)[:200]}")
        return
    outcome.connections += had.connections
    if had.text == "".join(texts_of(seed)) and had.datas[-1] == DONE:
        outcome.identical += 1
    else:
        outcome.faults.append(f"{seed}: {len(had.text)} of {len(''.join(texts_of(seed)))} characters")


def held(process: Process) -> tuple[int, int]:
    """Open files and resident MiB of a gateway."""
    resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 2**20
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir())), resident


async def active(port: int) -> float:
    async with await Client.to(port) as client:
        client.ask("GET", "/metrics")
        answer = await client.ended()
    return sum(float(line.split()[-1]) for line in answer.body.decode().splitlines() if line.startswith("decluster_streams_active"))


async def run(shared: bool, arguments: argparse.Namespace) -> bool:
    upstream, outcome = Upstream(), Outcome()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with contextlib.AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_server()) if shared else None
        config = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "decluster.yaml"
        where = f", redis: '{redis.url}'" if redis is not None else ""
        config.write_text(
            f"upstreams: [{{name: chaos, base_url: '{url}'}}]\nresume: {{hold: 5s{where}}}\nlimits: {{connections_idle: 0}}\n"
        )
        gateways = [await stack.enter_async_context(running("--config", str(config), "--log-level", "info")) for _ in range(2)]
        ports = [await gateway.port for gateway in gateways]
        before = [held(gateway) for gateway in gateways]
        began = time.monotonic()
        seeds = iter([f"{arguments.seed}-{number}" for number in range(arguments.streams)])

        async def worker() -> None:
            for seed in seeds:
                await one(seed, ports, shared, outcome)

        await asyncio.gather(*(worker() for _ in range(arguments.at_once)))
        took_s = time.monotonic() - began
        while any([await active(port) for port in ports]):
            await asyncio.sleep(0.1)
        await asyncio.sleep(6)  # until what is held after its end has gone
        after = [held(gateway) for gateway in gateways]
        warned = [line["message"] for gateway in gateways for line in gateway.lines if line["level"] in ("warning", "error")]
    server.close()
    wanted = sum(len(texts_of(f"{arguments.seed}-{number}")) for number in range(arguments.streams))
    generated = sum(upstream.deltas.values())
    most = max(upstream.generations.values(), default=0)
    print(f"store                          {'redis' if shared else 'memory'}, two gateways, seed {arguments.seed}")
    print(f"streams                        {outcome.streams} ({arguments.at_once} at once, {took_s:.0f} s)")
    print(f"identical to the character     {outcome.identical}")
    print(f"connections                    {outcome.connections} ({outcome.connections - outcome.streams} resumed)")
    print(f"upstream generations a stream  {sum(upstream.generations.values()) / outcome.streams:.4f} (most {most})")
    print(f"tokens generated twice         {max(0, generated - wanted) / wanted:.4%} of {wanted} deltas")
    print(f"open files, before and after   {[files for files, _ in before]} {[files for files, _ in after]}")
    print(f"resident MiB, before and after {[size for _, size in before]} {[size for _, size in after]}")
    for fault in [*outcome.faults[:10], *sorted(set(warned))]:
        print(f"  {fault}")
    print(flush=True)
    left_open = any(new > old + 20 for (old, _), (new, _) in zip(before, after, strict=True))  # those to Redis
    return outcome.identical == outcome.streams and most == 1 and generated == wanted and not left_open and not warned


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["memory", "redis", "both"], default="both")
    arguments = parser.parse_args()
    stores = {"memory": [False], "redis": [True], "both": [False, True]}[arguments.store]
    outcomes = [asyncio.run(run(shared, arguments)) for shared in stores]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
