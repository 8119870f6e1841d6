"""A body pushed from the socket's read to a sink."""

from __future__ import annotations

import asyncio
import weakref

import httpx
import pytest

from gateway.upstream.body import Body
from gateway.upstream.proxies import Proxies
from gateway.upstream.push import push
from gateway.upstream.transport import Transport

from .readers import Recorder, ask, body_of, turns
from .servers import CHUNKED, LAST_CHUNK, OK, ByteByByte, CutsShort, InPieces, ResetMidChunk, Server, StallingBody, chunk

pytestmark = pytest.mark.anyio


async def test_each_read_of_the_socket_is_one_call_with_all_its_body_bytes(transport: Transport) -> None:
    pieces = [CHUNKED, chunk(b"one") + chunk(b"two") + chunk(b"three"), chunk(b"four"), LAST_CHUNK]
    async with InPieces(*pieces) as server:
        server.go.release()
        response = await ask(transport, server.url)
        sink = Recorder()
        body_of(response).attach(sink)
        server.go.release()
        await sink.until(11)
        server.go.release()
        await sink.until(15)
        server.go.release()
        await sink.until_end()
    assert sink.chunks == [b"onetwothree", b"four"]
    assert sink.log == ["data", "data", "end"]
    assert sink.error is None


async def test_data_and_end_of_one_read_come_in_this_order(transport: Transport) -> None:
    async with InPieces(CHUNKED, chunk(b"all") + LAST_CHUNK) as server:
        server.go.release()
        sink = Recorder()
        body_of(await ask(transport, server.url)).attach(sink)
        server.go.release()
        await sink.until_end()
    assert sink.log == ["data", "end"]


async def test_what_came_before_the_sink_is_delivered_when_it_is_attached(transport: Transport) -> None:
    async with Server(CHUNKED + chunk(b"one") + chunk(b"two") + LAST_CHUNK) as server:
        response = await ask(transport, server.url)
        sink = Recorder()
        body_of(response).attach(sink)
        assert sink.chunks == [b"onetwo"]
        assert sink.log == ["data", "end"]


async def test_a_response_without_a_body_only_ends(transport: Transport) -> None:
    async with Server(b"HTTP/1.1 204 No Content\r\n\r\n") as server:
        sink = Recorder()
        body_of(await ask(transport, server.url)).attach(sink)
        assert sink.log == ["end"]


async def test_byte_by_byte_is_the_same_text(transport: Transport) -> None:
    async with ByteByByte(CHUNKED + chunk(b"data: \xe2\x82\xac\n\n") * 3 + LAST_CHUNK) as server:
        sink = Recorder()
        body_of(await ask(transport, server.url)).attach(sink)
        await sink.until_end()
    assert sink.bytes == b"data: \xe2\x82\xac\n\n" * 3
    assert sink.error is None


@pytest.mark.parametrize(
    "sent",
    [
        CHUNKED + chunk(b"abc"),
        CHUNKED + b"5\r\nabc",
        CHUNKED + chunk(b"abc") + b"0\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
    ],
)
async def test_a_message_that_is_cut_ends_with_an_error_after_its_data(transport: Transport, sent: bytes) -> None:
    async with CutsShort(sent) as server:
        sink = Recorder()
        response = await ask(transport, server.url)
        body_of(response).attach(sink)
        await sink.until_end()
    assert sink.bytes == b"abc"
    assert sink.log[-1] == "end"
    assert isinstance(sink.error, httpx.RemoteProtocolError)
    assert sink.error.request is response.request


async def test_a_body_without_length_ends_properly_with_the_connection(transport: Transport) -> None:
    async with CutsShort(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n") as server:
        sink = Recorder()
        body_of(await ask(transport, server.url)).attach(sink)
        await sink.until_end()
        assert transport.pool.open_count == 0
    assert (sink.bytes, sink.error) == (b"data: x\n\n", None)


async def test_a_reset_ends_with_a_read_error(transport: Transport) -> None:
    async with ResetMidChunk(CHUNKED + b"10\r\nabc") as server:
        sink = Recorder()
        body_of(await ask(transport, server.url)).attach(sink)
        await sink.until(3)
        server.reset.set()
        await sink.until_end()
    assert isinstance(sink.error, httpx.ReadError)
    assert "reset" in str(sink.error)


async def test_a_broken_chunk_ends_with_an_error_after_the_data_before_it(transport: Transport) -> None:
    async with Server(CHUNKED + chunk(b"abc") + b"zz\r\n") as server:
        sink = Recorder()
        body_of(await ask(transport, server.url)).attach(sink)
        await sink.until_end()
        await server.until_left()
    assert sink.bytes == b"abc"
    assert isinstance(sink.error, httpx.RemoteProtocolError)


async def test_abort_closes_at_once_and_nothing_is_told_any_more(transport: Transport) -> None:
    async with StallingBody(CHUNKED + chunk(b"abc")) as server:
        sink = Recorder()
        body = body_of(await ask(transport, server.url))
        body.attach(sink)
        await sink.until(3)
        body.abort()
        body.abort()
        await server.until_left()
        await turns()
        assert sink.log == ["data"]
        assert transport.pool.open_count == 0


class LeavesAtFirstData(Recorder):
    """Aborts from within data()."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body

    def data(self, chunk: bytes) -> None:
        super().data(chunk)
        self.body.abort()


@pytest.mark.parametrize("together", [True, False])
async def test_abort_from_within_data_leaves_no_end(transport: Transport, together: bool) -> None:
    rest = chunk(b"abc") + LAST_CHUNK
    async with InPieces(*([CHUNKED + rest] if together else [CHUNKED, rest])) as server:
        server.go.release()
        body = body_of(await ask(transport, server.url))
        sink = LeavesAtFirstData(body)
        body.attach(sink)
        server.go.release()
        await sink.until(3)
        await turns()
    assert sink.log == ["data"]


async def test_abort_after_the_end_leaves_the_kept_connection_alone(transport: Transport) -> None:
    async with Server() as server:
        body = body_of(await ask(transport, server.url))
        body.attach(Recorder())
        body.abort()
        body.pause()
        await ask(transport, server.url)
        assert server.connections == 1


async def test_while_paused_nothing_is_told_and_the_upstream_has_to_wait(transport: Transport) -> None:
    flood = CHUNKED + chunk(b"x" * 2**20) * 32 + LAST_CHUNK
    async with Server(flood) as server:
        body = body_of(await ask(transport, server.url))
        sink = Recorder()
        body.attach(sink)
        body.pause()
        before = len(sink.log)
        await turns(200)
        assert len(sink.log) == before
        assert len(sink.bytes) < 2**20  # the rest is where it belongs: in the sockets and at the sender
        body.resume()
        await sink.until_end()
    assert len(sink.bytes) == 32 * 2**20
    assert sink.error is None


async def test_attaching_late_takes_up_what_was_held_and_reads_on() -> None:
    flood = CHUNKED + chunk(b"x" * 65536) * 64 + LAST_CHUNK
    async with Transport(proxies=Proxies({}), hold_bytes=1024) as transport, Server(flood) as server:
        body = body_of(await ask(transport, server.url))
        await turns(100)
        sink = Recorder()
        body.attach(sink)
        assert 0 < len(sink.bytes) <= 1024 + 2**18  # what may be held, and one read of the socket
        await sink.until_end()
        assert len(sink.bytes) == 64 * 65536


async def test_a_kept_connection_does_not_hold_on_to_the_sink(transport: Transport) -> None:
    async with InPieces(CHUNKED, chunk(b"x") + LAST_CHUNK) as server:
        server.go.release()
        body = body_of(await ask(transport, server.url))
        sink = Recorder()
        body.attach(sink)
        server.go.release()
        await sink.until_end()
        gone = weakref.ref(sink)
        del sink, body
        assert gone() is None
        assert transport.pool.open_count == 1


async def test_a_sink_that_pauses_in_its_last_data_leaves_a_usable_connection(transport: Transport) -> None:
    async with InPieces(CHUNKED, chunk(b"x") + LAST_CHUNK, OK) as server:
        server.go.release()
        body = body_of(await ask(transport, server.url))

        class Pauses(Recorder):
            def data(self, chunk: bytes) -> None:
                super().data(chunk)
                body.pause()

        sink = Pauses()
        body.attach(sink)
        server.go.release()
        await sink.until_end()
        server.go.release()
        server.pieces = (OK,)
        response = await ask(transport, server.url)
        assert response.status_code == 200
        assert server.connections == 1


async def test_a_body_has_one_reader(transport: Transport) -> None:
    async with StallingBody(CHUNKED) as server:
        body = body_of(await ask(transport, server.url))
        body.attach(Recorder())
        with pytest.raises(RuntimeError, match="reader already"):
            body.attach(Recorder())
        with pytest.raises(RuntimeError, match="reader already"):
            await anext(body)


async def test_push_of_our_own_body_is_the_body_itself(transport: Transport) -> None:
    async with StallingBody(CHUNKED) as server:
        response = await ask(transport, server.url)
        stream = body_of(response)
        assert push(stream, Recorder()) is stream


async def test_no_task_stands_behind_a_pushed_body(transport: Transport) -> None:
    async with StallingBody(CHUNKED) as server:
        body = body_of(await ask(transport, server.url))
        before = len(asyncio.all_tasks())
        body.attach(Recorder())
        assert len(asyncio.all_tasks()) == before


async def test_a_transport_that_closes_ends_the_bodies_in_flight(transport: Transport) -> None:
    async with StallingBody(CHUNKED) as server:
        sink = Recorder()
        body_of(await ask(transport, server.url)).attach(sink)
        await transport.aclose()
        assert isinstance(sink.error, httpx.ReadError)
        assert transport.pool.open_count == 0
        with pytest.raises(httpx.ConnectError, match="closed"):
            await ask(transport, server.url)


async def test_endless_trailers_are_cut_off(transport: Transport) -> None:
    class Chatters(Server):
        async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(CHUNKED + chunk(b"abc") + b"0\r\nX: ")
            for _ in range(64):
                writer.write(b"y" * 16384)
                await writer.drain()
                await asyncio.sleep(0)
            await reader.read()

    async with Chatters() as server:
        sink = Recorder()
        body_of(await ask(transport, server.url)).attach(sink)
        await sink.until_end()
        assert isinstance(sink.error, httpx.RemoteProtocolError)
        await server.until_left()
