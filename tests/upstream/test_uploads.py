"""Requests' bodies on their way up."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.upstream.transport import Transport

from .readers import Pieces, Recorder, ask, body_of, read, turns, until
from .servers import CHUNKED, LAST_CHUNK, OK, NeverReads, RefusesEarly, Server, Swallows, chunk

pytestmark = pytest.mark.anyio

MEGABYTE = 2**20


async def test_a_stream_goes_in_chunks_and_arrives_whole(transport: Transport) -> None:
    async with Server() as server:
        await ask(transport, server.url, content=None, stream=Pieces([b"one", b"", b"two" * 100_000, b"three"]))
        received = server.requests[0]
        assert received.body == b"one" + b"two" * 100_000 + b"three"
        assert b"Transfer-Encoding: chunked" in received.headers


async def test_a_stream_with_a_length_is_sent_as_it_is(transport: Transport) -> None:
    async with Server() as server:
        headers = {"Content-Length": "6"}
        await ask(transport, server.url, content=None, headers=headers, stream=Pieces([b"one", b"two"]))
        assert server.requests[0].body == b"onetwo"
        assert b"Content-Length: 6" in server.requests[0].headers


async def test_bytes_whose_header_says_chunked_go_in_chunks(transport: Transport) -> None:
    async with Server() as server:
        for content in (b"abc", b"", b"x" * 300_000):
            stream = httpx.ByteStream(content)
            await ask(transport, server.url, content=None, headers={"Transfer-Encoding": "chunked"}, stream=stream)
            assert server.requests[-1].body == content
        assert server.connections == 1


@pytest.mark.parametrize("size", [65536, 65537, 3 * MEGABYTE])
async def test_bytes_of_any_size_arrive_whole(transport: Transport, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"\xff" * (size % 256)
    async with Server() as server:
        for _ in range(2):
            await ask(transport, server.url, content=content)
            assert server.requests[-1].body == content
        assert server.connections == 1


async def test_a_multipart_form_passes(transport: Transport) -> None:
    async with Server() as server, httpx.AsyncClient(transport=transport) as client:
        response = await client.post(server.url, files={"file": ("a.txt", b"hello" * 50_000)})
        assert response.status_code == 200
        assert b"hello" * 50_000 in server.requests[0].body


class Fresh(httpx.AsyncByteStream):
    """Makes each piece only when it is asked for."""

    def __init__(self, pieces: int, piece_bytes: int) -> None:
        self.pieces = pieces
        self.piece_bytes = piece_bytes
        self.made_bytes = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for _ in range(self.pieces):
                self.made_bytes += self.piece_bytes
                yield bytes(self.piece_bytes)
        finally:
            self.closed = True


async def test_a_large_upload_takes_no_more_from_its_source_than_the_socket_takes(transport: Transport) -> None:
    stream = Fresh(100, MEGABYTE // 4)
    ahead: list[int] = []

    async with Swallows() as server:

        class Watched(Fresh):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                async for piece in super().__aiter__():
                    ahead.append(self.made_bytes - server.swallowed_bytes)
                    yield piece

        stream = Watched(100, MEGABYTE // 4)
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        response = await ask(transport, server.url, content=None, stream=stream)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
        assert response.status_code == 200
        assert server.swallowed_bytes == 25 * MEGABYTE
        assert stream.closed
    assert max(ahead) < 10 * MEGABYTE  # what the sockets of both sides hold, and a piece; in the process itself far less:
    assert grown_kib < 8 * 1024


async def test_an_early_refusal_is_returned_and_its_connection_closed(transport: Transport) -> None:
    stream = Fresh(1000, MEGABYTE // 4)
    async with RefusesEarly(b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large") as server:
        response = await ask(transport, server.url, content=None, stream=stream)
        assert (response.status_code, await read(response)) == (413, b"too large")
        await until(lambda: transport.pool.open_count == 0)
        assert stream.closed
        assert stream.made_bytes < 100 * MEGABYTE


async def test_a_refusal_stops_the_upload_though_its_own_body_is_still_coming(transport: Transport) -> None:
    stream = Fresh(1000, MEGABYTE // 4)
    async with RefusesEarly(b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo") as server:
        await ask(transport, server.url, content=None, stream=stream)
        await until(lambda: stream.closed)
        assert transport.pool.open_count == 1


@pytest.mark.parametrize("answer", [OK, OK.replace(b"200 OK", b"413 Too Large")])
async def test_a_connection_whose_upload_was_not_finished_is_not_kept(transport: Transport, answer: bytes) -> None:
    class Waits(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"first"
            await asyncio.Event().wait()

    class AnswersAtFirst(Server):
        async def receive(self, reader: asyncio.StreamReader) -> None:
            await reader.readuntil(b"first\r\n")

    async with AnswersAtFirst(answer) as server:
        assert await read(await ask(transport, server.url, content=None, stream=Waits())) == b"ok"
        await server.until_left()
        await until(lambda: transport.pool.open_count == 0)


async def test_an_early_refusal_of_bytes_closes_as_well(transport: Transport) -> None:
    async with RefusesEarly(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n") as server:
        response = await ask(transport, server.url, content=bytes(25 * MEGABYTE))
        assert response.status_code == 413
        await until(lambda: transport.pool.open_count == 0)


async def test_an_answer_that_begins_early_goes_on_beside_the_upload(transport: Transport) -> None:
    more = asyncio.Event()

    class Waits(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"first"
            await more.wait()
            yield b"last"

    class AnswersWhileItReads(Server):
        async def receive(self, reader: asyncio.StreamReader) -> None:
            await reader.readuntil(b"first\r\n")

        async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(CHUNKED + chunk(b"I heard you"))
            await reader.readuntil(b"last\r\n0\r\n\r\n")
            writer.write(chunk(b" out") + LAST_CHUNK)

    async with AnswersWhileItReads() as server:
        response = await ask(transport, server.url, content=None, stream=Waits())
        sink = Recorder()
        body_of(response).attach(sink)
        await sink.until(11)
        more.set()
        await sink.until_end()
        assert (sink.bytes, sink.error) == (b"I heard you out", None)


async def test_an_answer_that_is_over_before_the_upload_ends_it(transport: Transport) -> None:
    async with RefusesEarly(OK) as server:
        stream = Fresh(1000, MEGABYTE // 4)
        response = await ask(transport, server.url, content=None, stream=stream)
        assert await read(response) == b"ok"
        await until(lambda: transport.pool.open_count == 0)
        assert stream.closed


class Broken(Exception):
    """Whoever sends the request has gone away."""


async def broken() -> AsyncIterator[bytes]:
    yield b"a"
    raise Broken


class BreakingBody(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in broken():
            yield piece


async def test_what_the_request_body_raises_reaches_the_caller_and_closes_the_connection(transport: Transport) -> None:
    async with Server() as server:
        with pytest.raises(Broken):
            await ask(transport, server.url, content=None, stream=BreakingBody())
        await server.until_left()


@pytest.mark.parametrize(("length", "told"), [("5", "ended after 3 of the 5"), ("2", "longer than")])
async def test_a_body_that_is_not_as_long_as_it_says_is_an_error(transport: Transport, length: str, told: str) -> None:
    async with Server() as server:
        headers = {"Content-Length": length}
        with pytest.raises(httpx.LocalProtocolError, match=told):
            await ask(transport, server.url, content=None, headers=headers, stream=Pieces([b"abc"]))
        await server.until_left()
        assert server.requests == []


async def test_a_peer_that_reads_nothing_runs_into_the_write_timeout(transport: Transport) -> None:
    async with NeverReads() as server:
        with pytest.raises(httpx.WriteTimeout) as raised:
            await ask(transport, server.url, content=bytes(25 * MEGABYTE), extensions={"timeout": {"write": 0.05}})
        assert raised.value.request.url == server.url
        await until(lambda: transport.pool.open_count == 0)


async def test_the_read_timeout_does_not_run_while_the_body_is_sent(transport: Transport) -> None:
    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(5):
                await asyncio.sleep(0.03)
                yield b"x"

    async with Server() as server:
        response = await ask(transport, server.url, content=None, stream=Slow(), extensions={"timeout": {"read": 0.1}})
        assert response.status_code == 200


async def test_a_peer_that_hangs_up_during_the_upload_is_an_error(transport: Transport) -> None:
    class HangsUp(Server):
        async def receive(self, reader: asyncio.StreamReader) -> None:
            await reader.readuntil(b"\r\n\r\n")
            raise ConnectionError

    async with HangsUp() as server:
        with pytest.raises((httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError)):
            await ask(transport, server.url, content=bytes(25 * MEGABYTE))


async def test_a_peer_that_ends_its_side_and_reads_nothing_is_left_at_once(transport: Transport) -> None:
    class EndsItsSide(NeverReads):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write_eof()
            await super().serve(reader, writer)

    async with EndsItsSide() as server:
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            await ask(transport, server.url, content=bytes(25 * MEGABYTE))
        await until(lambda: transport.pool.open_count == 0)


async def test_no_upload_outlives_its_exchange(transport: Transport) -> None:
    async with RefusesEarly(CHUNKED) as server:
        stream = Fresh(1000, MEGABYTE // 4)
        body = body_of(await ask(transport, server.url, content=None, stream=stream))
        body.abort()
        await until(lambda: stream.closed)
        await turns()
        assert transport.pool.open_count == 0
