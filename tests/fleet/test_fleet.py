"""Replicas and workers as one: what they share by Redis, one killed in mid-stream, and a restart of one after the other behind a real HAProxy.

Each connection of these clients is a new one, so the kernel gives it to whichever worker it likes: what holds here holds for any of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fleet.fleet import HEADERS, Fleet, Talk, fleet
from fleet.rolling import roll
from support.client import Client, ask, chat_body
from support.upstream import SAFETY_S

pytestmark = pytest.mark.anyio


async def short(port: int, seed: str) -> int:
    answer = await ask(port, body=chat_body(user=f"{seed}|1|0"), headers=HEADERS)
    return answer.status


async def test_a_limit_of_requests_holds_over_replicas_and_workers(tmp_path: Path) -> None:
    async with fleet(tmp_path, {"admission": {"requests_per_minute": 12}}) as made:
        codes = [await short(made.replicas[number % 2].port, f"r{number}") for number in range(20)]
    assert codes.count(200) == 12
    assert codes.count(429) == 8
    assert codes == sorted(codes)
    assert sum(made.talker.asked.values()) == 12


async def test_a_stream_begun_at_one_replica_is_resumed_at_the_other_while_it_runs_and_after(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        one, other = (replica.port for replica in made.replicas)
        talk = Talk("a", 20, 0.05)
        async with left_after(one, talk, b"a-3 "):
            pass
        assert talk.text
        assert not talk.complete
        for _ in range(2):
            again = Talk("a", 20, 0.05, talk.text, talk.last)
            await again.listen(other)
            assert again.complete
        assert made.talker.asked == {"a": 1}


async def test_who_follows_a_worker_that_is_killed_is_told_so_and_nothing_that_was_recorded_is_lost(tmp_path: Path) -> None:
    async with fleet(tmp_path, {"resume": {"lease": "1s"}}) as made:
        one, other = made.replicas
        owner, follower = Talk("a", 400, 0.05), Talk("a", 400, 0.05)
        async with left_after(one.port, owner, b"a-2 ", abruptly=False) as client:
            following = asyncio.create_task(follower.listen(other.port))
            await client.until(lambda answer: b"a-12 " in answer.body)
            for pid in one.pids:  # whichever of them has it
                os.kill(pid, signal.SIGKILL)
            await client.ended()
            assert not client.answer.whole
            await following
        assert follower.error == "stream_lost"
        assert follower.whole
        assert follower.is_a_beginning
        assert "a-9 " in follower.text
        late = Talk("a", 400, 0.05, owner.text, owner.last)
        await late.listen(other.port)
        assert late.error == "stream_lost"
        assert late.text == follower.text
        assert made.talker.asked == {"a": 1}
        anew = Talk("b", 3, 0.0)  # by the workers that took their places, once they are there
        async with asyncio.timeout(SAFETY_S):
            while not anew.complete:
                try:
                    await anew.listen(one.port)
                except OSError:
                    await asyncio.sleep(0.05)
        assert await taken_over(made)


async def test_a_rolling_restart_cuts_no_stream(tmp_path: Path) -> None:
    outcome, number = await roll(tmp_path, streams=12, long=2, grace_s=3.0)
    assert outcome.faults == []
    assert outcome.whole + outcome.told == number
    assert outcome.told == outcome.resumed == outcome.anew == 2
    assert outcome.refused == {}
    assert [code for code, _ in outcome.restarts] == [0, 0]


@asynccontextmanager
async def left_after(port: int, talk: Talk, seen: bytes, *, abruptly: bool = True) -> AsyncIterator[Client]:
    """The stream as its first client has it: once it has seen this, and until the block ends."""
    async with await Client.to(port) as client:
        client.ask(body=chat_body(user=f"{talk.seed}|{talk.count}|{talk.every_s}"), headers=[*HEADERS, ("idempotency-key", talk.seed)])
        await client.until(lambda answer: seen in answer.body)
        talk.take(client.answer)
        yield client
        client.leave(abruptly=abruptly)


async def taken_over(made: Fleet) -> bool:
    one = made.replicas[0]
    assert one.process is not None
    await one.process.logged("a worker ended; another takes its place")
    return True
