"""The short way for a body: taken where the server takes it, and never ahead of what waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.relay.channel import Channel, Message

pytestmark = pytest.mark.anyio


def body(message: Message) -> bytes:
    return bytes(message.get("body", b"start"))


async def test_what_the_server_takes_does_not_go_through_send() -> None:
    sent: list[bytes] = []
    taken: list[bytes] = []

    async def send(message: Message) -> None:
        sent.append(body(message))

    def direct(data: bytes) -> bool:
        taken.append(data)
        return data != b"refused"

    channel = Channel(asyncio.get_running_loop(), send, lambda: None, lambda: None, direct)
    channel.body(b"one")
    channel.body(b"refused")
    assert taken == [b"one", b"refused"]
    assert sent == [b"refused"]


async def test_while_a_message_waits_the_short_way_waits_behind_it() -> None:
    out: list[Any] = []
    room = asyncio.get_running_loop().create_future()
    drained = asyncio.Event()

    async def send(message: Message) -> None:
        if body(message) == b"waits":
            await room
        out.append(body(message))

    def direct(data: bytes) -> bool:
        if data == b"waits":
            return False
        out.append(data)
        return True

    channel = Channel(asyncio.get_running_loop(), send, drained.set, lambda: None, direct)
    channel.body(b"waits")
    channel.body(b"behind")
    assert channel.blocked
    assert out == []
    room.set_result(None)
    await drained.wait()
    assert out == [b"waits", b"behind"]


async def test_a_closed_channel_tells_nobody_that_it_drained() -> None:
    told: list[str] = []
    room = asyncio.get_running_loop().create_future()

    async def send(message: Message) -> None:
        await room

    channel = Channel(asyncio.get_running_loop(), send, lambda: told.append("drained"), lambda: told.append("broken"))
    channel.body(b"waits")
    channel.close()
    room.set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == []
