"""What HTTP/2 to an upstream costs beside HTTP/1.1: `python -m benchmarks.http2`.

One upstream that speaks both (`benchmarks/either.py`) plays the same events, a chunk or a DATA frame each; our transport reads them by
push, in a process of its own whose CPU time is taken, kernel included. Rounds of the two alternate in one run, and the median of each is
divided. Three ways of coming: an event at a time; 80 in a segment; and short requests one after the other. `--gateway` puts the whole
gateway in place of the bare transport, with clients of plain HTTP/1.1 in front of it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import uvloop

from benchmarks.either import EVENT, WAYS, Way


class Count:
    """A sink."""

    def __init__(self) -> None:
        self.bytes = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data(self, chunk: bytes) -> None:
        self.bytes += len(chunk)

    def end(self, error: Exception | None) -> None:
        if error is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(None)


async def read(port: int, way: Way, http2: Any) -> None:
    """The bare transport: prints CPU seconds and events."""
    import httpx

    from gateway.upstream.body import Body
    from gateway.upstream.proxies import Proxies
    from gateway.upstream.tls import context_factory
    from gateway.upstream.transport import Transport

    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"play"}]}'
    headers = [(b"content-type", b"application/json"), (b"authorization", b"Bearer sk-bench")]

    async def one(transport: Transport) -> int:
        request = httpx.Request("POST", f"{scheme}://127.0.0.1:{port}/v1/{way.name}", headers=headers, content=body)
        response = await transport.handle_async_request(request)
        sink = Count()
        assert isinstance(response.stream, Body)  # noqa: S101
        response.stream.attach(sink)
        await sink.done
        return sink.bytes // len(EVENT)

    folder = os.environ.get("BENCH_TLS")
    scheme = "https" if folder else "http"
    trust = context_factory(f"{folder}/ca.pem" if folder else None, environ={})
    async with Transport(proxies=Proxies({}), http2=http2, ssl_context=trust) as transport:
        if way.every_s:
            await asyncio.gather(*(one(transport) for _ in range(2)))  # the connection is there, code is warm
            begun = time.process_time()
            events = sum(await asyncio.gather(*(one(transport) for _ in range(way.streams))))
        else:
            for _ in range(200):
                await one(transport)
            begun, events = time.process_time(), 0
            until = time.monotonic() + way.lasts_s
            while time.monotonic() < until:
                await one(transport)
                events += 1
        print(time.process_time() - begun, events, flush=True)


class Client(asyncio.Protocol):
    """Asks a gateway over HTTP/1.1, and counts."""

    def __init__(self, asking: bytes) -> None:
        self.asking = asking
        self.bytes = 0
        self.tail = b""
        self.transport: Any = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.tail = b""
        self.transport.write(self.asking)

    def data_received(self, data: bytes) -> None:
        self.bytes += data.count(b'"index"')
        self.tail = (self.tail + data)[-5:]
        if self.tail == b"0\r\n\r\n" and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError())


async def load(port: int, way: Way, cpu: Callable[[], float]) -> tuple[float, int]:
    """CPU seconds of the gateway, and events."""
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"play"}]}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nauthorization: Bearer sk-bench\r\n"
    asking = head + b"content-length: %d\r\n\r\n%b" % (len(body), body)
    loop = asyncio.get_running_loop()

    async def one() -> Client:
        _, client = await loop.create_connection(lambda: Client(asking), "127.0.0.1", port)
        await client.done
        client.transport.close()
        return client

    if way.every_s:
        await one()
        begun = cpu()
        clients = await asyncio.gather(*(one() for _ in range(way.streams)))
        return cpu() - begun, sum(client.bytes for client in clients)
    _, client = await loop.create_connection(lambda: Client(asking), "127.0.0.1", port)
    await client.done
    requests, begun, until = 0, cpu(), time.monotonic() + way.lasts_s
    while time.monotonic() < until:
        client.done = loop.create_future()
        client.ask()
        await client.done
        requests += 1
    client.transport.close()
    return cpu() - begun, requests


def cpu_of(pid: int) -> Callable[[], float]:
    def seconds() -> float:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    return seconds


def by_gateway(upstream: int, way: Way, http2: str, mode: str) -> tuple[float, int]:
    import json

    config = (
        f"upstreams: [{{name: bench, base_url: 'http://127.0.0.1:{upstream}/{way.name}', http2: '{http2}'}}]\npacing: {{mode: {mode}}}\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(config)
        file.flush()
        command = [sys.executable, "-m", "gateway", "serve", "--config", file.name, "--port", "0", "--log-format", "json"]
        command += ["--log-level", "info"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)  # noqa: S603
        try:
            assert process.stderr is not None  # noqa: S101
            line: dict[str, Any] = {}
            while line.get("message") != "listening":
                line = json.loads(process.stderr.readline())
            drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)  # noqa: S607  # its log
            port = int(line["url"].split(":")[2].split("/")[0])
            return uvloop.run(load(port, way, cpu_of(process.pid)))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            drain.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", default="trickle,bursts,short")
    parser.add_argument("--gateway", choices=("raw", "smooth"), help="the whole gateway, with this pacing")
    parser.add_argument("--tls", action="store_true", help="under TLS; not with --gateway")
    parser.add_argument("--read", nargs=3, metavar=("PORT", "WAY", "HTTP2"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    named = {way.name: way for way in WAYS}
    if arguments.read:
        port, name, http2 = arguments.read
        uvloop.run(read(int(port), named[name], http2))
        return
    with tempfile.TemporaryDirectory() as folder:
        if arguments.tls:
            import trustme

            authority = trustme.CA()
            authority.cert_pem.write_to_path(f"{folder}/ca.pem")
            authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(f"{folder}/own.pem")
            os.environ["BENCH_TLS"] = folder
        compare(arguments, named)


def compare(arguments: argparse.Namespace, named: dict[str, Way]) -> None:
    own = [sys.executable, "-m", "benchmarks.http2"]
    upstream = subprocess.Popen([sys.executable, "-m", "benchmarks.either"], stdout=subprocess.PIPE, text=True)
    try:
        assert upstream.stdout is not None  # noqa: S101
        port = int(upstream.stdout.readline())
        for name in arguments.ways.split(","):
            taken: dict[str, list[float]] = {"false": [], "true": []}
            for _ in range(arguments.rounds):
                for http2, figures in taken.items():
                    if arguments.gateway:
                        seconds, events = by_gateway(port, named[name], http2, arguments.gateway)
                    else:
                        said = subprocess.run([*own, "--read", str(port), name, http2], capture_output=True, text=True, check=True)  # noqa: S603
                        seconds, events = float(said.stdout.split()[0]), int(said.stdout.split()[1])
                    figures.append(seconds / events * 1e6)
            one, two = (statistics.median(taken[http2]) for http2 in ("false", "true"))
            print(f"{name:8} HTTP/1.1 {one:7.2f} us   HTTP/2 {two:7.2f} us   ratio {two / one:.2f}", flush=True)
    finally:
        upstream.kill()
        upstream.wait()


if __name__ == "__main__":
    main()
