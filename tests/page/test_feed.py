"""What the page's event stream keeps and costs: one look for all who look, nothing for nobody, a bounded one for any number of streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.relay.channel import Message
from gateway.server.page.feed import FEED, Page
from gateway.server.page.figures import ENDED_AT_MOST, SHOWN_AT_MOST
from support.chunks import chunk, words
from support.client import CHAT, Answer, Client, chat_body, stream
from support.gateway import Running, serving, settings_for
from support.plays import Play, Write, sse
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio
LOOK_BYTES = 64 * 1024
HANGS = Play(end="hang")
TALK = Play((Write(sse([chunk("secret-answer"), *words(" secret-answer")])),))


class Counting(Page):
    built = 0

    def _figures(self, now: float) -> dict[str, Any]:
        self.built += 1
        return super()._figures(now)


class Viewer:
    """Takes a look when the test lets it. `looks`: what it was sent."""

    def __init__(self, page: Page, method: str = "GET") -> None:
        self.looks: list[bytes] = []
        self.came = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self._leaves = asyncio.Event()
        scope = {"type": "http", "method": method, "path": FEED, "client": ("127.0.0.1", 1), "headers": [(b"host", b"localhost")]}
        self.task = asyncio.get_running_loop().create_task(page(scope, self._receive, self._send))

    async def leave(self) -> None:
        self._leaves.set()
        self.reads.set()
        await self.task

    async def look(self) -> dict[str, Any]:
        self.came.clear()
        await self.came.wait()
        found: dict[str, Any] = json.loads(self.looks[-1][6:])
        return found

    async def _receive(self) -> Message:
        await self._leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message.get("body"):
            self.looks.append(message["body"])
            self.came.set()
        await self.reads.wait()


@asynccontextmanager
async def hanging(gateway: Running, count: int, model: str) -> AsyncIterator[None]:
    clients = [await Client.to(gateway.port) for _ in range(count)]
    for client in clients:
        client.ask("POST", CHAT, chat_body(model=model), [("content-type", "application/json")])
    while len(gateway.gateway.running) < count:
        await asyncio.sleep(0)
    yield
    for client in clients:
        await client.__aexit__(None, None, None)
    await gateway.idle()


async def test_all_who_look_share_one_look_and_nothing_is_built_or_kept_for_nobody() -> None:
    async with ScriptedUpstream(HANGS) as upstream, serving(settings_for(upstream.url)) as gateway:
        page = Counting(gateway.gateway)
        async with hanging(gateway, 1, "m-test"):
            assert page.built == 0
            viewers = [Viewer(page) for _ in range(8)]
            for _ in range(3):
                await viewers[-1].look()
            assert page.built <= max(len(viewer.looks) for viewer in viewers), "once for all, and not once for each"
            for viewer in viewers:
                await viewer.leave()
            built = page.built
            assert (page._look, page._kinds, page._viewers) == (b"", {}, 0)
        assert page.built == built
        assert not gateway.gateway.running, "a stream that is over is no longer known"


async def test_a_look_at_two_hundred_streams_with_the_longest_names_is_bounded() -> None:
    async with ScriptedUpstream(*[HANGS] * 200) as upstream, serving(settings_for(upstream.url)) as gateway:
        page = Page(gateway.gateway)
        viewer = Viewer(page)
        async with hanging(gateway, 200, "🏴" * 5000):
            found = await viewer.look()
            while found["active"] < 200:
                found = await viewer.look()
            assert len(found["streams"]) == SHOWN_AT_MOST
            assert len(page._kinds) <= SHOWN_AT_MOST
        found = await viewer.look()
        while found["active"]:
            found = await viewer.look()
        assert len(found["ended"]) == ENDED_AT_MOST == len(gateway.gateway.ended.rows)
        assert max(map(len, viewer.looks)) < LOOK_BYTES
        await viewer.leave()


async def test_who_reads_slowly_gets_fewer_looks_and_none_is_kept_for_them() -> None:
    async with ScriptedUpstream() as upstream, serving(settings_for(upstream.url)) as gateway:
        page = Page(gateway.gateway)
        slow, quick = Viewer(page), Viewer(page)
        await slow.look()
        slow.reads.clear()
        before = len(slow.looks)
        for _ in range(5):
            await quick.look()
        assert len(slow.looks) <= before + 1
        await slow.leave()
        await quick.leave()


async def test_a_head_request_is_answered_and_takes_no_place() -> None:
    async with ScriptedUpstream() as upstream, serving(settings_for(upstream.url)) as gateway:
        page = Page(gateway.gateway)
        viewer = Viewer(page, "HEAD")
        await viewer.task
        assert viewer.looks == []
        assert page._viewers == 0


async def test_no_text_and_no_key_of_any_stream_is_in_a_look() -> None:
    async with ScriptedUpstream(TALK) as upstream, serving(settings_for(upstream.url)) as gateway:
        viewer = Viewer(Page(gateway.gateway))
        answer: Answer = await stream(
            gateway.port, [("x-api-key", "sk-secret-key")], messages=[{"role": "user", "content": "secret-prompt"}]
        )
        assert b"secret-answer" in answer.body
        await gateway.idle()
        while not (await viewer.look())["ended"]:
            pass
        await viewer.leave()
        for secret in (b"sk-secret-key", b"secret-prompt", b"test-key", b"secret-answer"):
            assert all(secret not in look for look in viewer.looks)
