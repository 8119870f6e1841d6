"""SIGTERM: no new streams, running ones finish, those that outlast the grace end with an honest error."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support import plays
from support.chunks import DONE, ROLE, STOP, chunk, words
from support.client import Client, ask, chat_body
from support.gateway import serving, settings_for
from support.plays import Play, Write, sse
from support.process import running
from support.upstream import SAFETY_S, ScriptedUpstream

pytestmark = pytest.mark.anyio

FIELDS = [("content-type", "application/json"), ("authorization", "Bearer test-key")]


async def test_a_running_stream_finishes_and_the_process_ends_with_0() -> None:
    async with ScriptedUpstream(plays.gated(sse([ROLE, chunk("one")]), sse([chunk(" two"), STOP, DONE]))) as upstream:
        async with running("--upstream", upstream.url) as process, await Client.to(await process.port) as client:
            client.ask(body=chat_body(), headers=FIELDS)
            await upstream.asked()
            upstream.go()
            await client.until(lambda answer: b"one" in answer.body)
            process.terminate()
            drained = await process.logged("draining")
            assert (drained["streams"], drained["grace_s"]) == (1, 30.0)
            upstream.go()
            answer = await client.ended()
            assert [event.data for event in answer.events] == [ROLE, chunk("one"), chunk(" two"), STOP, DONE]
            assert answer.whole
            assert await process.ended() == 0
            assert [line["end"] for line in process.lines if line["message"] == "request"] == ["whole"]


async def test_a_stream_that_outlasts_the_grace_ends_with_an_error_event(tmp_path: Path) -> None:
    async with ScriptedUpstream(Play((Write(sse([ROLE, chunk("one")])),), end="hang")) as upstream:
        config = tmp_path / "decluster.yaml"
        config.write_text(f"upstreams:\n  - name: up\n    base_url: {upstream.url}\nshutdown:\n  grace: 0.3s\n")
        async with running("--config", str(config)) as process, await Client.to(await process.port) as client:
            client.ask(body=chat_body(), headers=FIELDS)
            await client.until(lambda answer: b"one" in answer.body)
            process.terminate()
            answer = await client.ended()
            assert answer.whole
            last = json.loads(answer.events[-1].data)
            assert last["error"]["code"] == "shutting_down"
            await upstream.left(upstream.attempts[0])
            assert await process.ended() == 0


async def test_nobody_is_let_in_while_it_ends() -> None:
    async with ScriptedUpstream(plays.gated(sse(words("slow")))) as upstream, serving(settings_for(upstream.url)) as gateway:
        async with await Client.to(gateway.port) as client, await Client.to(gateway.port) as kept:
            client.ask(body=chat_body(), headers=FIELDS)
            kept.ask("GET", "/healthz")
            await kept.ended()
            await upstream.asked()
            ending = asyncio.get_running_loop().create_task(gateway.shut_down())
            async with asyncio.timeout(SAFETY_S):
                while not gateway.gateway.draining:
                    await asyncio.sleep(0)
            with pytest.raises(ConnectionRefusedError):
                await ask(gateway.port, "GET", "/healthz")
            upstream.go()
            answer = await client.ended()
            assert answer.events[-1].data == DONE
            await ending
            assert len(upstream.attempts) == 1


async def test_a_request_on_a_connection_that_was_kept_is_refused_while_it_ends() -> None:
    async with ScriptedUpstream(plays.events(*words("a"))) as upstream, serving(settings_for(upstream.url)) as gateway:
        async with await Client.to(gateway.port) as client:
            gateway.gateway.draining = True
            client.ask(body=chat_body(), headers=FIELDS)
            answer = await client.ended()
        assert (answer.status, answer.json()["error"]["code"]) == (503, "shutting_down")
        assert (answer.header("connection"), answer.header("retry-after")) == ("close", "1")
        assert (await ask(gateway.port, "GET", "/readyz")).status == 503
        assert (await ask(gateway.port, "GET", "/healthz")).status == 200
        assert upstream.attempts == []


async def test_without_streams_it_ends_at_once() -> None:
    async with ScriptedUpstream() as upstream, running("--upstream", upstream.url) as process:
        assert await process.port
        process.terminate()
        assert await process.ended() == 0
        assert not [line for line in process.lines if line["level"] in ("warning", "error")]
