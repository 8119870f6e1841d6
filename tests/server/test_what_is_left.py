"""What a request leaves behind in memory: nothing that only the garbage collector could free.

Rings of objects live until the oldest generation is looked through, which is seldom: with a thousand streams that was a hundred MiB.
"""

from __future__ import annotations

import asyncio
import gc

import pytest

from gateway.dialects.base import Dialect
from gateway.relay.exchange import Exchange
from gateway.server.call import Call
from gateway.stream import Stream
from support import plays
from support.chunks import words
from support.client import Client, ask, chat_body, stream
from support.gateway import Running, serving, settings_for
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio


def left() -> list[str]:
    return [type(each).__name__ for each in gc.get_objects() if isinstance(each, Exchange | Stream | Dialect | Call)]


async def settled(gateway: Running) -> None:
    await gateway.idle()
    for _ in range(5):  # callbacks of what has ended
        await asyncio.sleep(0)


async def test_a_stream_that_has_ended_is_freed_at_once() -> None:
    said = words(*["word "] * 160)
    async with ScriptedUpstream(plays.events(*said)) as upstream, serving(settings_for(upstream.url)) as gateway:
        gc.collect()
        gc.disable()
        try:
            answer = await stream(gateway.port)
            assert answer.status == 200
            await settled(gateway)
            assert left() == []
        finally:
            gc.enable()


async def test_so_is_one_whose_client_has_left() -> None:
    said = words(*["word "] * 600)
    async with ScriptedUpstream(plays.events(*said)) as upstream, serving(settings_for(upstream.url)) as gateway:
        gc.collect()
        gc.disable()
        try:
            async with await Client.to(gateway.port) as client:
                client.ask(body=chat_body(), headers=[("content-type", "application/json")])
                await client.until(lambda answer: b"word" in answer.body)
            await settled(gateway)
            assert left() == []
        finally:
            gc.enable()


async def test_so_is_a_plain_answer() -> None:
    async with ScriptedUpstream(plays.json(b'{"data":[]}')) as upstream, serving(settings_for(upstream.url)) as gateway:
        gc.collect()
        gc.disable()
        try:
            answer = await ask(gateway.port, "GET", "/v1/models")
            assert answer.status == 200
            await settled(gateway)
            assert left() == []
        finally:
            gc.enable()
