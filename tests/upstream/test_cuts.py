"""The law of the wire: where the bytes of a response are cut into reads does not matter, by push or by iteration.

The connection is real; its socket is not, so that hypothesis can cut where it likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.http1 import Connection
from gateway.upstream.request import encode

from .readers import Recorder, body_of
from .servers import CHUNKED, LAST_CHUNK, OK, chunk

EVENTS = b"data: one\n\n", b"data: \xf0\x9f\x8c\x8d\n\n", b": ping\r\n\r\n", b"x" * 300
RESPONSES = [
    CHUNKED + b"".join(map(chunk, EVENTS)) + LAST_CHUNK,
    CHUNKED + b"A;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n" + b"y" * 30,
    b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nuntil the end of the connection",  # ended by EOF
    CHUNKED + chunk(b"good") + b"bad\r\n",  # broken
    CHUNKED + chunk(b"good") + b"5\r\ncut",  # cut by EOF
]
Outcome = tuple[int, list[tuple[bytes, bytes]], bytes, str]


class FakeSocket(asyncio.Transport):
    def __init__(self, unsent_bytes: int = 0) -> None:
        super().__init__()
        self.closed = False
        self.unsent_bytes = unsent_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class FakeKeeper:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def opened(self, connection: Connection) -> None:
        self.told.append("opened")

    def give(self, connection: Connection) -> None:
        self.told.append("given")

    def lost(self, connection: Connection) -> None:
        if self.told[-1] != "lost":
            self.told.append("lost")

    def closed(self, connection: Connection) -> None:
        self.told.append("closed")


def run(coroutine: Coroutine[Any, Any, tuple[Outcome, list[str]]]) -> tuple[Outcome, list[str]]:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


async def outcome(pieces: list[bytes], pushed: bool, attach_after: int, unsent_bytes: int = 0) -> tuple[Outcome, list[str]]:
    """What the reader of a response gets that comes in these pieces; the sink is attached after so many turns of the loop."""
    keeper = FakeKeeper()
    connection = Connection(("http", "upstream.test", 80), keeper, asyncio.get_running_loop(), 4096, 65536)
    connection.connection_made(FakeSocket(unsent_bytes))
    request = httpx.Request("POST", "http://upstream.test/", content=b"{}")
    sink = Recorder()

    async def read() -> Outcome:
        response = await connection.exchange(encode(request), request, None, None)
        for _ in range(attach_after):
            await asyncio.sleep(0)
        body = body_of(response)
        if pushed:
            body.attach(sink)
            await sink.until_end()
            error = sink.error
        else:
            error = None
            try:
                async for piece in body:
                    sink.data(piece)
            except httpx.HTTPError as raised:
                error = raised
        assert all(sink.chunks)
        return response.status_code, response.headers.raw, sink.bytes, type(error).__name__

    reader = asyncio.create_task(read())
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
        await asyncio.sleep(0)
    connection.eof_received()
    return await asyncio.wait_for(reader, 10), keeper.told


def test_the_small_change_of_framing_never_adds_up_to_a_limit() -> None:
    pieces = [CHUNKED, *[b"1\r\n", b"x", b"\r\n"] * 2000, LAST_CHUNK]
    (_, _, body, error), told = run(outcome(pieces, True, 0))
    assert (body, error) == (b"x" * 2000, "NoneType")
    assert "given" in told


def test_a_connection_with_unsent_bytes_of_the_request_is_not_kept() -> None:
    got, told = run(outcome([OK], True, 0, unsent_bytes=1))
    assert (got[2], got[3]) == (b"ok", "NoneType")
    assert "given" not in told


@pytest.mark.parametrize("pushed", [True, False])
@given(response=st.sampled_from(RESPONSES), attach_after=st.integers(0, 5), data=st.data())
def test_cutting_the_response_anywhere_changes_nothing(pushed: bool, response: bytes, attach_after: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(response) - 1), max_size=40)))
    pieces = [response[a:b] for a, b in zip([0, *cuts], [*cuts, len(response)], strict=True)]
    assert run(outcome(pieces, pushed, attach_after)) == run(outcome([response], True, 0))


@pytest.mark.parametrize(
    ("response", "error", "given_back"),
    [
        (RESPONSES[0], "NoneType", True),
        (RESPONSES[1], "NoneType", True),
        (RESPONSES[2], "NoneType", True),
        (RESPONSES[3], "NoneType", True),
        (RESPONSES[4], "NoneType", False),
        (RESPONSES[5], "RemoteProtocolError", False),
        (RESPONSES[6], "RemoteProtocolError", False),
    ],
)
@pytest.mark.parametrize("pushed", [True, False])
def test_byte_by_byte_is_what_it_is_at_once(response: bytes, error: str, given_back: bool, pushed: bool) -> None:
    single = [response[at : at + 1] for at in range(len(response))]
    got, told = run(outcome(single, pushed, 0))
    assert (got, told) == run(outcome([response], pushed, 0))
    assert got[3] == error
    assert ("given" in told) is given_back
