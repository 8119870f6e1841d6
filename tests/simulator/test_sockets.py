"""On real sockets: one write a burst, clients that leave, resets, silence, and a server that ends when told to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
import uvloop

from gateway.simulator import serving
from gateway.simulator.scenarios import TABLE

from .asking import PATHS, request

PATIENCE_S = 20  # for a machine that does other things
FAST = {"x-simulate-speed": "1000"}


@pytest.fixture(params=["uvloop", "asyncio"])
def play(request: pytest.FixtureRequest) -> Callable[[Callable[[str, httpx.AsyncClient], Awaitable[None]]], None]:
    """Runs a scenario against a server of its own, on each loop."""

    async def within(work: Callable[[str, httpx.AsyncClient], Awaitable[None]]) -> None:
        async with asyncio.timeout(PATIENCE_S), serving() as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            await work(url, client)

    def runner(work: Callable[[str, httpx.AsyncClient], Awaitable[None]]) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as loop:
            loop.run(within(work))

    return runner


async def stats(client: httpx.AsyncClient) -> dict[str, Any]:
    answer: dict[str, Any] = (await client.get("/_sim/stats")).json()
    return answer


async def once_active(client: httpx.AsyncClient, number: int) -> dict[str, Any]:
    """The statistics once so many requests are active."""
    while True:
        seen = await stats(client)
        if seen["active"] == number:
            return seen


async def settled(client: httpx.AsyncClient) -> dict[str, Any]:
    return await once_active(client, 0)


def test_a_stream_arrives_whole(play: Any) -> None:
    async def work(url: str, client: httpx.AsyncClient) -> None:
        for dialect, path in PATHS.items():
            answer = await client.post(path, json=request(dialect, "clusters", stream=True), headers=FAST)
            assert answer.status_code == 200
            assert answer.headers["transfer-encoding"] == "chunked"
            assert len(answer.content) == (await stats(client))["log"][-1]["sent"]
        assert (await stats(client))["finished"] == len(PATHS)

    play(work)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("model", ["hangs", "hangs-before-headers", "silent", "planner"])
def test_a_client_that_leaves_is_noticed_at_once(play: Any, model: str, streaming: bool) -> None:
    async def work(url: str, client: httpx.AsyncClient) -> None:
        body = json.dumps(request("chat", model, stream=streaming)).encode()
        head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nx-request-id: leaver\r\ncontent-length: {len(body)}\r\n\r\n"
        _, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
        writer.write(head.encode() + body)
        await once_active(client, 1)
        left = time.monotonic()
        writer.transport.abort()
        seen = await settled(client)
        assert (seen["cancelled"], seen["finished"]) == (1, 0)
        [entry] = seen["log"]
        assert (entry["request_id"], entry["outcome"]) == ("leaver", "cancelled")
        assert left <= entry["cancelled_at"] <= seen["now"]

    play(work)


def test_a_client_that_does_not_read_is_noticed_when_it_leaves(play: Any) -> None:
    async def work(url: str, client: httpx.AsyncClient) -> None:
        # 16 thoughts in one write: more than the sockets' buffers hold
        body = json.dumps(request("chat", "planner", stream=True, n=16)).encode()
        head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nx-simulate-speed: 1e6\r\ncontent-length: {len(body)}\r\n\r\n"
        _, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port, limit=1024)
        writer.write(head.encode() + body)
        sent = -1
        while (entries := (await stats(client))["log"]) == [] or entries[0]["sent"] > sent:
            sent = entries[0]["sent"] if entries else -1
            await asyncio.sleep(0.1)
        writer.transport.abort()
        assert (await settled(client))["cancelled"] == 1

    play(work)


@pytest.mark.parametrize("streaming", [True, False])
def test_dies_half_way_is_a_reset_after_a_part_of_the_body(play: Any, streaming: bool) -> None:
    async def work(url: str, client: httpx.AsyncClient) -> None:
        body = json.dumps(request("chat", "dies-half-way", stream=streaming)).encode()
        head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nx-simulate-speed: 1000\r\ncontent-length: {len(body)}\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
        writer.write(head.encode() + body)
        seen, reset = b"", False
        try:
            while data := await reader.read(65_536):
                seen += data
        except ConnectionResetError:
            reset = True
        writer.close()
        assert reset
        assert seen.startswith(b"HTTP/1.1 200 OK\r\n")
        assert not streaming or seen.count(b"data: ") == 1 + sum(b.tokens for b in TABLE["dies-half-way"].bursts)
        assert b'"finish_reason":"stop"' not in seen
        assert (await settled(client))["finished"] == 1

    play(work)


def test_no_finish_is_a_clean_end_of_the_body(play: Any) -> None:
    async def work(url: str, client: httpx.AsyncClient) -> None:
        answer = await client.post(PATHS["chat"], json=request("chat", "no-finish", stream=True), headers=FAST)
        assert b"[DONE]" not in answer.content

    play(work)


def test_hangs_sends_headers_and_role_and_then_nothing(play: Any) -> None:
    async def work(url: str, client: httpx.AsyncClient) -> None:
        async with client.stream("POST", PATHS["chat"], json=request("chat", "hangs", stream=True), headers=FAST) as answer:
            body = aiter(answer.aiter_raw())
            assert b'"role":"assistant"' in await anext(body)
            more = asyncio.ensure_future(anext(body))
            done, _ = await asyncio.wait([more], timeout=0.2)
            assert not done
            more.cancel()
            await asyncio.wait([more])

    play(work)


def test_a_connection_is_kept_for_the_next_request_and_pipelining_works(play: Any) -> None:
    async def work(url: str, client: httpx.AsyncClient) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
        writer.write(b"GET /v1/models/steady HTTP/1.1\r\nhost: x\r\n\r\n" * 2)
        for _ in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            assert json.loads(await reader.readexactly(length))["id"] == "steady"
        writer.close()

    play(work)


def test_leaving_the_context_ends_streams_that_are_running(play: Any) -> None:
    async def work(url: str, client: httpx.AsyncClient) -> None:
        async with serving() as other:
            stream = client.build_request("POST", f"{other}{PATHS['chat']}", json=request("chat", "hangs", stream=True))
            answer = await client.send(stream, stream=True)
        with pytest.raises(httpx.TransportError):
            await answer.aread()

    play(work)


def test_a_taken_port_is_an_os_error(play: Any) -> None:
    async def work(url: str, client: httpx.AsyncClient) -> None:
        with pytest.raises(OSError, match="address already in use"):
            async with serving(port=httpx.URL(url).port or 0):
                pass

    play(work)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_with_0_when_it_is_told_to_also_in_mid_stream(number: signal.Signals) -> None:
    code = "import sys; from gateway.simulator import run; sys.exit(run('127.0.0.1', 0))"
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().split()[4].removesuffix("/v1")
        with httpx.stream("POST", f"{url}{PATHS['chat']}", json=request("chat", "hangs", stream=True), timeout=PATIENCE_S) as answer:
            assert answer.status_code == 200
            process.send_signal(number)
            _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert errors == b""
