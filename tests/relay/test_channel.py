"""Writing to a client: at once while it takes what it is given, in order when it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.relay.channel import Channel
from gateway.relay.outlet import Outlet
from gateway.wire.headers import STREAM_FIELDS

pytestmark = pytest.mark.anyio


class Peer:
    """An ASGI server's `send`. gate: set while the client takes what it is given."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.yields = False
        self.drained = 0
        self.broken = 0
        self.over = 0

    async def send(self, message: Any) -> None:
        if self.yields:
            await asyncio.sleep(0)
        while not self.gate.is_set():
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.taken.append(message)

    def channel(self) -> Channel:
        return Channel(asyncio.get_running_loop(), self.send, self._drained, self._broken)

    def _drained(self) -> None:
        self.drained += 1

    def _broken(self) -> None:
        self.broken += 1

    def _over(self) -> None:
        self.over += 1


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_write_is_taken_in_the_turn_in_which_it_is_made() -> None:
    peer = Peer()
    channel = peer.channel()
    for number in range(3):
        channel.write({"number": number})
    assert [message["number"] for message in peer.taken] == [0, 1, 2]
    assert not channel.blocked
    await turns()
    assert peer.drained == 0


async def test_writes_wait_behind_one_that_waits_and_leave_in_order() -> None:
    peer = Peer()
    channel = peer.channel()
    peer.gate.clear()
    for number in range(5):
        channel.write({"number": number})
        assert channel.blocked
    await turns()
    assert peer.taken == []
    peer.gate.set()
    await turns()
    assert [message["number"] for message in peer.taken] == [0, 1, 2, 3, 4]
    assert not channel.blocked
    assert peer.drained == 1


async def test_a_client_that_blocks_again_is_waited_for_again() -> None:
    peer = Peer()
    peer.gate.clear()
    send = peer.send

    async def blocks_after_the_first(message: Any) -> None:
        await send(message)
        if message["number"] == 0:
            peer.gate.clear()

    channel = Channel(asyncio.get_running_loop(), blocks_after_the_first, peer._drained, peer._broken)
    for number in range(3):
        channel.write({"number": number})
    peer.gate.set()
    await turns()
    assert channel.blocked
    assert peer.drained == 0
    peer.gate.set()
    await turns()
    assert not channel.blocked
    assert peer.drained == 1


async def test_a_bare_yield_is_gone_on_with_in_the_next_turn() -> None:
    peer = Peer()
    peer.yields = True
    channel = peer.channel()
    channel.write({"number": 0})
    channel.write({"number": 1})
    assert channel.blocked
    await turns()
    assert [message["number"] for message in peer.taken] == [0, 1]
    assert peer.drained == 1


@pytest.mark.parametrize("waits", [False, True])
async def test_a_server_that_raises_is_told_once_and_nothing_more_is_written(waits: bool) -> None:
    peer = Peer()
    peer.error = OSError("gone")
    channel = peer.channel()
    if waits:
        peer.gate.clear()
    channel.write({"number": 0})
    channel.write({"number": 1})
    peer.gate.set()
    await turns()
    assert channel.blocked
    assert (peer.broken, peer.drained, peer.taken) == (1, 0, [])


async def test_a_response_begins_once_with_the_streams_head() -> None:
    peer = Peer()
    outlet = Outlet(asyncio.get_running_loop(), peer.send, b"req_1", peer._drained, peer._broken)
    assert outlet.status == 0
    outlet.frame(b"data: a\n\n")
    outlet.begin(200)
    outlet.frame(b"data: b\n\n")
    outlet.end(peer._over)
    assert peer.over == 1
    start, *bodies = peer.taken
    assert (start["type"], start["status"], outlet.status) == ("http.response.start", 200, 200)
    assert start["headers"] == [*STREAM_FIELDS, (b"x-request-id", b"req_1")]
    assert [(body["body"], body["more_body"]) for body in bodies] == [(b"data: a\n\n", True), (b"data: b\n\n", True), (b"", False)]


async def test_a_whole_answer_says_its_length_and_keeps_an_id_that_the_upstream_gave() -> None:
    peer = Peer()
    outlet = Outlet(asyncio.get_running_loop(), peer.send, b"req_1", peer._drained, peer._broken)
    outlet.whole(502, b"{}", [(b"X-Request-Id", b"theirs")], peer._over)
    assert peer.over == 1
    start, body = peer.taken
    assert start["status"] == 502
    assert dict(start["headers"])[b"content-length"] == b"2"
    assert [value for name, value in start["headers"] if name == b"x-request-id"] == [b"theirs"]
    assert (body["body"], body["more_body"]) == (b"{}", False)


@pytest.mark.parametrize("how", ["stream", "answer"])
async def test_a_response_is_over_only_when_the_server_has_taken_its_end(how: str) -> None:
    """A server whose client reads slowly takes the end late; a request that returned before would leave its message unfinished."""
    peer = Peer()
    outlet = Outlet(asyncio.get_running_loop(), peer.send, b"req_1", peer._drained, peer._broken)
    if how == "stream":
        outlet.frame(b"data: a\n\n")
    peer.gate.clear()
    if how == "stream":
        outlet.end(peer._over)
    else:
        outlet.whole(502, b"{}", [], peer._over)
    await turns()
    assert (peer.over, outlet.over) == (0, True)
    peer.gate.set()
    await turns()
    assert peer.taken[-1]["more_body"] is False
    assert (peer.over, peer.drained) == (1, 0)
