"""The law of resuming: a stream whose connection is cut at any byte and resumed, up to 8 times, is the stream, for one upstream call.

In memory with one gateway, and in Redis with two, where each connection may meet the other one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from support.chunks import DONE, ROLE, STOP, chunk
from support.cutting import Cut, resumed
from support.gateway import Running, serving, settings_for
from support.plays import Play, Write, sse
from support.redis import redis_server
from support.upstream import ScriptedUpstream

KEYS = itertools.count()
TEXTS = st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from("😀🇩🇪👩‍👧é\n"), min_size=1, max_size=9), min_size=1, max_size=12)
CUTS = st.lists(
    st.builds(Cut, st.integers(0, 2500), st.integers(0, 1), st.sampled_from(["event", "cursor"])),
    max_size=8,
)


class World:
    """gateways: one in memory, or two that share a Redis."""

    def __init__(self, runner: asyncio.Runner, shared: bool) -> None:
        self.runner = runner
        self.shared = shared
        self.upstream = ScriptedUpstream()
        self.gateways: list[Running] = []
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        await self._stack.enter_async_context(self.upstream)
        redis = await self._stack.enter_async_context(redis_server()) if self.shared else None
        settings = settings_for(self.upstream.url, resume={} if redis is None else {"redis": redis.url})
        for _ in range(1 + self.shared):
            self.gateways.append(await self._stack.enter_async_context(serving(settings)))

    async def stop(self) -> None:
        await self._stack.aclose()

    async def holds(self, texts: list[str], step: int, cuts: list[Cut], last: int) -> None:
        events = [ROLE, *map(chunk, texts), STOP, DONE]
        writes = [Write(sse(events[at : at + step]), after_s=0.001) for at in range(0, len(events), step)]
        self.upstream.plays = [Play(tuple(writes))]
        before = len(self.upstream.attempts)
        ports = [gateway.port for gateway in self.gateways]
        cuts = [Cut(cut.bytes, cut.gateway % len(ports), cut.by) for cut in cuts]
        had = await resumed(ports, f"key-{next(KEYS)}", cuts, last % len(ports), [("x-client-streams", "raw")])
        assert had.text == "".join(texts)
        assert had.datas[-1] == DONE
        if all(cut.by == "event" for cut in cuts):
            assert had.datas == events
        assert len(self.upstream.attempts) == before + 1


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


@pytest.fixture(scope="module", params=[False, True], ids=["in memory", "in Redis, two gateways"])
def world(request: pytest.FixtureRequest, runner: asyncio.Runner) -> Iterator[World]:
    world = World(runner, request.param)
    runner.run(world.start())
    yield world
    runner.run(world.stop())


@settings(max_examples=250)
@given(texts=TEXTS, step=st.integers(1, 4), cuts=CUTS, last=st.integers(0, 1))
def test_cut_at_any_byte_and_resumed_it_is_the_same_stream_for_one_upstream_call(
    world: World, texts: list[str], step: int, cuts: list[Cut], last: int
) -> None:
    world.runner.run(world.holds(texts, step, cuts, last))
