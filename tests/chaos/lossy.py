"""A network with loss and delay between gateway and upstream, and the same between a client and the upstream without the gateway.

    python tests/chaos/lossy.py [-n 2000] [-c 50] [--loss 0.005] [--rtt-ms 50] [--seed 1]

Where the kernel has netem it is a network namespace of its own with `tc qdisc ... netem`; else a proxy that does what TCP makes of lost
packets: bytes arrive late and in order, a lost segment holds up all behind it until it is sent again (after a timeout for a thin stream, as
answers of a token a packet are), a lost SYN costs a second. Prints success rates and the times to the first token and to the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from chaos.faults import child, port_of, said
from support.client import CHAT, Client

SEGMENT_BYTES: Final = 1448
TIMEOUT_S: Final = 0.2  # Linux's shortest retransmission timeout; the round trip comes on top
SYN_S: Final = 1.0
LIMIT_S: Final = 60.0
MODEL: Final = "echo"


class Line:
    """One direction of a connection: what is written arrives half a round trip later, in order, later still behind a lost segment."""

    def __init__(self, writer: asyncio.StreamWriter, chance: random.Random, loss: float, rtt_s: float) -> None:
        self._writer = writer
        self._chance = chance
        self._loss = loss
        self._rtt_s = rtt_s
        self._free_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._under_way: deque[bytes | None] = deque()

    def send(self, data: bytes) -> None:
        for at in range(0, len(data), SEGMENT_BYTES):
            now = self._loop.time()
            arrives = now + self._rtt_s / 2
            if self._chance.random() < self._loss:
                arrives += TIMEOUT_S + self._rtt_s
            self._free_at = arrives = max(arrives, self._free_at)
            self._under_way.append(data[at : at + SEGMENT_BYTES])
            self._loop.call_at(arrives, self._deliver)

    def end(self) -> None:
        self._free_at = max(self._free_at, self._loop.time() + self._rtt_s / 2)
        self._under_way.append(None)
        self._loop.call_at(self._free_at, self._deliver)

    def _deliver(self) -> None:
        """The next in order: timers of one time ring in any."""
        data = self._under_way.popleft()
        if data is None:
            self._writer.close()
        elif not self._writer.is_closing():
            self._writer.write(data)


class Network:
    def __init__(self, port: int, loss: float, rtt_s: float, seed: int) -> None:
        self._port, self._loss, self._rtt_s = port, loss, rtt_s
        self._chance = random.Random(seed)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self._rtt_s + (SYN_S if self._chance.random() < self._loss else 0.0))
        there_reader, there = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(self._pump(reader, there), self._pump(there_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(writer, self._chance, self._loss, self._rtt_s)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                line.send(data)
        line.end()


@dataclass
class Figures:
    whole: int = 0
    streams: int = 0
    first_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)

    def line(self, name: str) -> str:
        def at(values: list[float], share: float) -> str:
            return f"{sorted(values)[int(share * (len(values) - 1))] * 1000:.0f}" if values else "-"

        cells = [f"{self.whole / max(1, self.streams):.2%} ({self.whole} of {self.streams})"]
        cells += [" / ".join(at(values, share) for share in (0.5, 0.95, 0.99)) for values in (self.first_s, self.total_s)]
        return f"| {name} | " + " | ".join(cells) + " |"


async def one(port: int, number: int, figures: Figures) -> None:
    words = " ".join(f"word{number}.{at}" for at in range(60))
    body = json.dumps({"model": MODEL, "stream": True, "messages": [{"role": "user", "content": words}]}).encode()
    fields = [("content-type", "application/json"), ("authorization", "Bearer x"), ("x-simulate-speed", "0.8")]
    figures.streams += 1
    with contextlib.suppress(OSError, TimeoutError, AssertionError):
        async with asyncio.timeout(LIMIT_S), await Client.to(port) as client:
            client.ask("POST", CHAT, body, fields)
            answer = await client.ended()
            text, ended, error = said("chat", [event.data for event in answer.events])
            if answer.whole and ended and not error and text == words:
                figures.whole += 1
                spoken = next(frame.at for frame in answer.frames if b"word" in frame.data)
                figures.first_s.append(spoken - answer.asked_at)
                figures.total_s.append(answer.ended_at - answer.asked_at)


async def all_of(port: int, streams: int, at_once: int) -> Figures:
    figures, numbers = Figures(), iter(range(streams))

    async def worker() -> None:
        for number in numbers:
            await one(port, number, figures)
            if figures.streams % 100 == 0:
                sys.stderr.write(f"\r{figures.streams}/{streams} ")
                sys.stderr.flush()

    await asyncio.gather(*(worker() for _ in range(at_once)))
    sys.stderr.write("\n")
    return figures


async def main(arguments: argparse.Namespace) -> bool:
    sys.stderr.write(f"seed {arguments.seed}\n")
    async with contextlib.AsyncExitStack() as stack:
        origin = await stack.enter_async_context(child("-u", "-m", "gateway", "simulate", "--port", "0"))
        upstream = int((await origin.line()).split("127.0.0.1:")[1].split("/")[0])
        network = Network(upstream, arguments.loss, arguments.rtt_ms / 1000, arguments.seed)
        server = await asyncio.start_server(network.serve, "127.0.0.1", 0)
        lossy = server.sockets[0].getsockname()[1]
        config = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "decluster.yaml"
        config.write_text(f"upstreams: [{{name: far, base_url: 'http://127.0.0.1:{lossy}'}}]\nlog: {{level: info}}\n")
        gateway = await stack.enter_async_context(
            child("-m", "gateway", "serve", "--config", str(config), "--port", "0", stderr=asyncio.subprocess.PIPE)
        )
        port = await port_of(gateway)
        drain = asyncio.create_task(gateway.process.stderr.read())
        stack.callback(drain.cancel)
        began = time.monotonic()
        direct = await all_of(lossy, arguments.streams, arguments.at_once)
        through = await all_of(port, arguments.streams, arguments.at_once)
        server.close()
    print(
        f"{arguments.loss:.1%} loss, {arguments.rtt_ms:g} ms round trip (a stalling proxy), {arguments.at_once} at once, seed {arguments.seed}, {time.monotonic() - began:.0f} s\n"
    )
    print("| | whole and identical | first token p50 / p95 / p99, ms | all of it p50 / p95 / p99, ms |\n|---|---|---|---|")
    print(direct.line("direct"))
    print(through.line("through the gateway"))
    return through.whole >= direct.whole


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--streams", type=int, default=2000)
    parser.add_argument("-c", "--at-once", type=int, default=50)
    parser.add_argument("--loss", type=float, default=0.005)
    parser.add_argument("--rtt-ms", type=float, default=50.0)
    parser.add_argument("--seed", type=int, default=1)
    sys.exit(0 if asyncio.run(main(parser.parse_args())) else 1)
