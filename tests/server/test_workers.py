"""Several workers as their operator runs them: one port, right totals, a dead one replaced, a configuration read anew."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.server.workers import Worker, alone, divided
from gateway.settings import Admission, Client, ModelLimit, Settings, Upstream
from support.client import Client as Caller
from support.client import chat_body
from support.process import Process, running
from support.simulated import simulated
from support.upstream import SAFETY_S

pytestmark = pytest.mark.anyio
BODY = {"model": "instant", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


def config(folder: Path, upstream: str, **more: Any) -> Path:
    path = folder / "decluster.yaml"
    path.write_text(json.dumps({"upstreams": [{"name": "sim", "base_url": upstream, "models": ["instant"]}], **more}))
    return path


class Operator:
    """Talks to a gateway over connections of its own, so that any worker may take each."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, timeout=SAFETY_S) as client:
            return await client.request(method, self.url + path, **more)

    async def stream(self) -> str:
        answer = await self.ask("POST", "/v1/chat/completions", json=BODY)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def total(self, pattern: str) -> float:
        text = (await self.ask("GET", "/metrics")).text
        return sum(float(value) for value in re.findall(rf"^{pattern}.* (\S+)$", text, re.MULTILINE))

    async def until(self, pattern: str, value: float) -> None:
        """Workers tell each other once a second."""
        async with asyncio.timeout(SAFETY_S):
            while await self.total(pattern) != value:
                await asyncio.sleep(0.05)


async def pids(gateway: Process, count: int) -> list[int]:
    """Of the workers, by their own lines."""
    async with asyncio.timeout(SAFETY_S):
        while True:
            found = [int(match) for match in re.findall(r"Started server process \[(\d+)\]", gateway.raw)]
            listening = sum(line["message"] == "listening" for line in gateway.lines)
            if len(found) >= count and listening >= count:
                return found
            await gateway.changed()


async def written(folder: Path, count: float) -> None:
    """Until the workers have written down so many ends of streams: what one has not yet written goes with it when it is killed."""
    async with asyncio.timeout(SAFETY_S):
        while _ends_written(folder) != count:
            await asyncio.sleep(0.05)


def _ends_written(folder: Path) -> float:
    snapshots = [json.loads(path.read_bytes()) for path in folder.glob("decluster-*/*.json")]
    return sum(values[0] for each in snapshots for _, values in each.get("decluster_stream_end", ()))


async def test_totals_are_those_of_all_workers_and_survive_one_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with simulated() as upstream:
        async with running("--config", str(config(tmp_path, upstream)), "--workers", "2") as gateway:
            operator = Operator(await gateway.port)
            first, second = await pids(gateway, 2)
            for _ in range(12):
                assert "[DONE]" in await operator.stream()
            await operator.until("decluster_stream_end_total", 12)
            await written(tmp_path, 12)
            os.kill(first, signal.SIGKILL)
            await gateway.logged("a worker ended; another takes its place")
            await pids(gateway, 3)
            assert await operator.total("decluster_stream_end_total") == 12
            for _ in range(4):
                assert "[DONE]" in await operator.stream()
            await operator.until("decluster_stream_end_total", 16)
            assert second in await pids(gateway, 3)
            gateway.terminate()
            assert await gateway.ended() == 0


async def test_a_good_configuration_holds_for_new_streams_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    with simulated() as upstream:
        path = config(tmp_path, upstream)
        async with running("--config", str(path), "--workers", "2") as gateway:
            operator = Operator(await gateway.port)
            await pids(gateway, 2)
            path.write_text("upstreams: [{name: sim, base_url: nonsense}]\n")
            gateway.hang_up()
            told = await gateway.logged("the configuration is wrong, so nothing has changed")
            assert "base_url" in told["problem"]
            assert "[DONE]" in await operator.stream()
            refused = await operator.ask("POST", "/-/reload")
            assert refused.status_code == 400
            assert "base_url" in refused.json()["error"]["message"]
            config(tmp_path, upstream, clients=[{"name": "c", "key_sha256": "0" * 64}], shutdown={"grace": "9s"})
            assert (await operator.ask("POST", "/-/reload")).status_code == 200
            async with asyncio.timeout(SAFETY_S):
                while sum(line["message"] == "the configuration was read anew" for line in gateway.lines) < 2:
                    await gateway.changed()
            assert (await gateway.logged("the configuration was read anew"))["takes_a_restart"] == "shutdown"
            for _ in range(6):
                assert (await operator.ask("POST", "/v1/chat/completions", json=BODY)).status_code == 401


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_the_port_is_given_back_while_the_last_streams_run_on(workers: str, tmp_path: Path) -> None:
    """Whoever else holds the socket, such as a process that this one has started, would have the kernel take connections for nobody."""
    with simulated() as upstream:
        async with running("--config", str(config(tmp_path, upstream)), "--workers", workers) as gateway:
            port = await gateway.port
            await pids(gateway, int(workers))
            for _ in range(4):
                assert "[DONE]" in await Operator(port).stream()
            async with await Caller.to(port) as client:
                client.ask(body=chat_body(model="clusters"), headers=[("content-type", "application/json")])
                await client.until(lambda answer: answer.frames)
                gateway.terminate()
                await gateway.logged("draining")
                async with asyncio.timeout(SAFETY_S):
                    while True:
                        with socket.socket() as other:
                            if other.connect_ex(("127.0.0.1", port)):
                                break
                        await asyncio.sleep(0.02)
                assert not client.answer.over
            assert await gateway.ended() == 0


async def test_one_process_reloads_as_well(tmp_path: Path) -> None:
    with simulated() as upstream:
        path = config(tmp_path, upstream)
        async with running("--config", str(path)) as gateway:
            operator = Operator(await gateway.port)
            config(tmp_path, upstream, clients=[{"name": "c", "key_sha256": "0" * 64}])
            gateway.hang_up()
            await gateway.logged("the configuration was read anew")
            assert (await operator.ask("POST", "/v1/chat/completions", json=BODY)).status_code == 401


async def test_without_a_file_there_is_nothing_to_read_anew() -> None:
    with simulated() as upstream:
        async with running("--upstream", upstream) as gateway:
            operator = Operator(await gateway.port)
            assert (await operator.ask("POST", "/-/reload")).status_code == 409
            assert (await operator.ask("POST", "/-/reload", headers={"host": "evil.example"})).status_code == 403
            assert (await operator.ask("GET", "/-/reload")).status_code == 405


async def test_workers_that_do_not_come_up_are_given_up(tmp_path: Path) -> None:
    with simulated() as upstream:
        trace = {"file": str(tmp_path / "streams.jsonl")}
        path = config(tmp_path, upstream, trace=trace)
        async with running("--config", str(path), "--workers", "2") as gateway:
            await pids(gateway, 2)
            gateway.terminate()
            gateway.terminate()
            assert await gateway.ended() in (0, 1)


def test_a_worker_is_told_its_place_in_one_variable() -> None:
    worker = Worker(7, 1, 4, Path("/tmp/with,comma"))  # noqa: S108
    assert Worker.of({"DECLUSTER_WORKER": str(worker)}) == worker
    assert Worker.of({}) is None


def test_without_redis_limits_are_divided_and_it_is_said() -> None:
    client = Client("c", "0" * 64, concurrent=8, requests_per_minute=10, tokens_per_minute=3, budget_per_day=4.0)
    admission = Admission(concurrent=9, requests_per_minute=100, models=(ModelLimit(("m",), 50, 1),))
    settings = Settings((Upstream("u", "http://x"),), clients=(client,), admission=admission)
    each = divided(settings, 4)
    assert each.clients[0] == Client("c", "0" * 64, concurrent=2, requests_per_minute=2, tokens_per_minute=1, budget_per_day=1.0)
    assert (each.admission.concurrent, each.admission.requests_per_minute) == (2, 25)
    assert each.admission.models[0] == ModelLimit(("m",), 12, 1)
    assert divided(settings, 1) == settings
    assert len(alone(settings)) == 2
