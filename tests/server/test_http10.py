"""Clients of HTTP/1.0, among them nginx as it comes: the end of the connection is the end of the answer, so a cut must not look like it."""

from __future__ import annotations

import asyncio

import pytest

from support import plays
from support.client import chat_body
from support.gateway import serving, settings_for
from support.plays import Play, Write
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio
WHOLE = plays.json(b'{"id":"x"}')


async def answer_of(port: int) -> tuple[bytes, bool]:
    """All that came until the connection ended, and whether it was closed and not reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = chat_body(stream=False)
    head = b"POST /v1/chat/completions HTTP/1.0\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )
    writer.write(head + body)
    came = b""
    try:
        while part := await reader.read(65536):
            came += part
    except ConnectionResetError:
        return came, False
    finally:
        writer.close()
    return came, True


async def test_a_whole_answer_ends_with_the_connection() -> None:
    async with ScriptedUpstream(WHOLE) as upstream, serving(settings_for(upstream.url)) as gateway:
        came, closed = await answer_of(gateway.port)
        assert came.endswith(b'{"id":"x"}')
        assert closed


async def test_an_answer_that_is_cut_ends_with_a_reset() -> None:
    cut = Play((Write(b'{"id":'),), fields=plays.JSON, end="reset")
    async with ScriptedUpstream(cut) as upstream, serving(settings_for(upstream.url)) as gateway:
        _, closed = await answer_of(gateway.port)
        assert not closed
        await gateway.idle()
