"""Replicas of several workers each with one Redis, the real HAProxy of deploy/ before them, and an upstream that talks as long as it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.chunks import DONE, ROLE, STOP, chunk
from support.client import Answer, Client, chat_body
from support.process import Process, running
from support.programs import program
from support.redis import RedisServer, free_port, redis_server
from support.upstream import SAFETY_S

HAPROXY = Path(__file__).parents[2] / "deploy" / "haproxy" / "decluster.cfg"
HEADERS = [("content-type", "application/json"), ("authorization", "Bearer test-key")]


def words(seed: str, count: int) -> list[str]:
    """The deltas that the upstream answers so with."""
    return [f"{seed}-{number} " for number in range(count)]


class Talker:
    """An upstream: `user` of a request says seed, number of deltas and the seconds between two. Counts what it was asked for."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def __aenter__(self) -> Talker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head.lower())
                if length is None:  # /readyz asks for the models
                    writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{"data": []}')
                    continue
                seed, count, every = json.loads(await reader.readexactly(int(length[1])))["user"].split("|")
                self.asked[seed] += 1
                await self._talk(writer, words(seed, int(count)), float(every))
        writer.close()

    async def _talk(self, writer: asyncio.StreamWriter, deltas: Sequence[str], every_s: float) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        self._write(writer, ROLE)
        for delta in deltas:
            await asyncio.sleep(every_s)
            self._write(writer, chunk(delta))
            await writer.drain()
        self._write(writer, STOP, DONE)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    @staticmethod
    def _write(writer: asyncio.StreamWriter, *datas: str) -> None:
        data = b"".join(b"data: %b\n\n" % data.encode() for data in datas)
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))


@dataclass
class Replica:
    """One gateway of several workers on a port that it keeps over restarts."""

    port: int
    config: Path
    workers: int
    process: Process | None = None
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def start(self) -> None:
        """Until each worker listens and one says that it is ready."""
        arguments = ["--config", str(self.config), "--port", str(self.port), "--workers", str(self.workers), "--log-level", "info"]
        self.process = await self._stack.enter_async_context(running(*arguments))
        async with asyncio.timeout(SAFETY_S):
            while sum(line["message"] == "listening" for line in self.process.lines) < self.workers:
                await self.process.changed()
        async with await Client.to(self.port) as client:
            client.ask("GET", "/readyz")
            assert (await client.ended()).status == 200

    async def stop(self, patience_s: float) -> int:
        """SIGTERM and its exit code."""
        assert self.process is not None
        self.process.terminate()
        async with asyncio.timeout(patience_s):
            code = await self.process._process.wait()
        await self._stack.aclose()
        return code

    @property
    def pids(self) -> list[int]:
        """Of its workers that live."""
        assert self.process is not None
        found = [int(found) for found in re.findall(r"Started server process \[(\d+)\]", self.process.raw)]
        return [pid for pid in found if Path(f"/proc/{pid}").exists()]

    def resident_mib(self) -> list[int]:
        pages = os.sysconf("SC_PAGESIZE")
        return [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * pages // 2**20 for pid in self.pids]

    async def close(self) -> None:
        await self._stack.aclose()


@dataclass
class Fleet:
    """proxy: HAProxy's port, 0 where there is none."""

    replicas: list[Replica]
    talker: Talker
    redis: RedisServer
    proxy: int = 0

    async def restart(self, number: int, patience_s: float) -> int:
        code = await self.replicas[number].stop(patience_s)
        await self.replicas[number].start()
        return code


@contextlib.asynccontextmanager
async def fleet(
    folder: Path, settings: Mapping[str, Any] | None = None, *, replicas: int = 2, workers: int = 2, proxied: bool = False
) -> AsyncIterator[Fleet]:
    """`settings`: sections of the file beside the upstream and Redis."""
    async with redis_server() as redis, Talker() as talker:
        more = {name: dict(section) if isinstance(section, Mapping) else section for name, section in (settings or {}).items()}
        for section in ("resume", "admission"):
            more.setdefault(section, {})["redis"] = redis.url
        config = folder / "decluster.yaml"
        config.write_text(json.dumps({"upstreams": [{"name": "talker", "base_url": talker.url, "models": ["m-test"]}], **more}))
        made = Fleet([Replica(free_port(), config, workers) for _ in range(replicas)], talker, redis)
        async with contextlib.AsyncExitStack() as stack:
            for replica in made.replicas:
                stack.push_async_callback(replica.close)
            await asyncio.gather(*(replica.start() for replica in made.replicas))
            if proxied:
                made.proxy = await stack.enter_async_context(haproxy([replica.port for replica in made.replicas], folder))
            yield made


@contextlib.asynccontextmanager
async def haproxy(ports: Sequence[int], folder: Path) -> AsyncIterator[int]:
    """As deploy/ has it, with a line for each replica."""
    port = free_port()
    text = HAPROXY.read_text().replace("8443", str(port))
    line = re.search(r"^    server gateway1 .*$", text, re.MULTILINE)
    assert line is not None
    servers = "\n".join(f"    server gateway{number} 127.0.0.1:{each} check" for number, each in enumerate(ports, 1))
    file = folder / "haproxy.cfg"
    file.write_text(text.replace(line[0], servers))
    with (folder / "haproxy.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(program("haproxy"), "-db", "-f", str(file), stdout=log, stderr=log)
        try:
            async with asyncio.timeout(SAFETY_S):
                while not await reaches(port):
                    assert process.returncode is None, (folder / "haproxy.log").read_text()
                    await asyncio.sleep(0.05)
            yield port
        finally:
            process.terminate()
            await process.wait()


async def reaches(port: int) -> bool:
    """Whether a request gets through to a gateway."""
    try:
        async with await Client.to(port) as client:
            client.ask("GET", "/healthz")
            return (await client.ended()).status == 200
    except OSError:
        return False


@dataclass
class Talk:
    """One stream at a client: what it has, of all its connections."""

    seed: str
    count: int
    every_s: float = 0.1
    text: str = ""
    last: str = ""
    ending: str = ""  # the last event's data
    status: int = 0
    whole: bool = False

    async def listen(self, port: int, key: str | None = None, more: Sequence[tuple[str, str]] = ()) -> Answer:
        """To the end of one connection. `key`: the seed unless given; goes on behind the last event that it has."""
        headers = [*HEADERS, ("idempotency-key", key or self.seed), *more]
        if self.last:
            headers.append(("last-event-id", self.last))
        async with await Client.to(port) as client:
            client.ask(body=chat_body(user=f"{self.seed}|{self.count}|{self.every_s}"), headers=headers)
            while not client.answer.over:  # longer than tests wait for anything else
                with contextlib.suppress(TimeoutError):
                    await client.ended()
        self.take(client.answer)
        return client.answer

    def take(self, answer: Answer) -> None:
        self.status, self.whole = answer.status, answer.whole
        for event in answer.events:
            for line in event.lines:
                if line.startswith(b"id: "):
                    self.last = line[4:].decode()
            self.ending = event.data
            if event.data.startswith('{"id"'):
                self.text += "".join(choice["delta"].get("content") or "" for choice in json.loads(event.data)["choices"])

    @property
    def complete(self) -> bool:
        return self.whole and self.ending == DONE and self.text == "".join(words(self.seed, self.count))

    @property
    def error(self) -> str:
        """The code of the error that it ended with; empty where it did not."""
        try:
            return str(json.loads(self.ending)["error"]["code"])
        except (ValueError, KeyError, TypeError):
            return ""

    @property
    def is_a_beginning(self) -> bool:
        """Nothing lost, doubled or invented in what it has."""
        return "".join(words(self.seed, self.count)).startswith(self.text)
