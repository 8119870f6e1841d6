"""A gateway that records is killed with -9: who follows its stream elsewhere learns it by the lease and is told so."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from support.chunks import ROLE, chunk
from support.client import Client, ask, chat_body
from support.gateway import serving, settings_for
from support.plays import Play, Write, sse
from support.process import running
from support.redis import redis_server
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio
KEYED = [("content-type", "application/json"), ("authorization", "Bearer test-key"), ("idempotency-key", "one")]


async def test_followers_of_a_killed_gateway_get_what_there_is_and_then_an_honest_error(tmp_path: Path) -> None:
    play = Play((Write(sse([ROLE, chunk("a")])), Write(sse([chunk("b")]), gated=True)), end="hang")
    async with redis_server() as redis, ScriptedUpstream(play) as upstream:
        config = tmp_path / "decluster.yaml"
        resume = f"resume: {{redis: '{redis.url}', lease: 1s}}\n"
        config.write_text(f"upstreams: [{{name: scripted, base_url: '{upstream.url}'}}]\n{resume}")
        async with (
            running("--config", str(config)) as owner,
            serving(settings_for(upstream.url, resume={"redis": redis.url, "lease": 1.0})) as other,
        ):
            async with await Client.to(await owner.port) as first, await Client.to(other.port) as second:
                first.ask(body=chat_body(), headers=KEYED)
                await first.until(lambda answer: b'"a"' in answer.body)
                second.ask(body=chat_body(), headers=[*KEYED, ("last-event-id", "1")])
                await second.until(lambda answer: b'"a"' in answer.body)
                os.kill(owner.pid, signal.SIGKILL)
                answer = await second.ended()
            assert json.loads(answer.events[-1].data)["error"]["code"] == "stream_lost"
            assert answer.whole
            late = await ask(other.port, body=chat_body(), headers=[*KEYED, ("last-event-id", "1")])
            assert [event.data for event in late.events[:-1]] == [chunk("a")]
            assert json.loads(late.events[-1].data)["error"]["code"] == "stream_lost"
            nothing = await ask(other.port, body=chat_body(), headers=[*KEYED, ("last-event-id", "2")])
            assert [json.loads(event.data)["error"]["code"] for event in nothing.events] == ["stream_lost"]
            beyond = await ask(other.port, body=chat_body(), headers=[*KEYED, ("last-event-id", "9")])
            assert (beyond.status, beyond.json()["error"]["code"]) == (503, "stream_lost")
            assert len(upstream.attempts) == 1
            await other.idle()
            assert other.metric("decluster_resumes_total", result="lost") == 4
