"""A body read in httpx's own way."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.upstream.proxies import Proxies
from gateway.upstream.transport import Transport

from .readers import ask, body_of, read, turns
from .servers import (
    CHUNKED,
    LAST_CHUNK,
    SAFETY_S,
    ByteByByte,
    CutsShort,
    InPieces,
    ResetMidChunk,
    Server,
    StallingBody,
    chunk,
)

pytestmark = pytest.mark.anyio


async def test_it_works_under_httpx_own_client(transport: Transport) -> None:
    answer = b'HTTP/1.1 201 Made\r\nX-A: 1\r\nx-a: \xb2\r\nContent-Length: 9\r\n\r\n{"a": 12}'
    async with Server(answer) as server, httpx.AsyncClient(transport=transport) as client:
        response = await client.post(server.url, json={"b": 1})
    assert response.json() == {"a": 12}
    assert (response.status_code, response.reason_phrase, response.http_version) == (201, "Made", "HTTP/1.1")
    assert response.headers.raw[:2] == [(b"X-A", b"1"), (b"x-a", b"\xb2")]
    assert server.requests[0].body == b'{"b":1}'


async def test_a_client_streams_line_by_line(transport: Transport) -> None:
    async with Server(CHUNKED + chunk(b"data: 1\n\nda") + chunk(b"ta: 2\n\n") + LAST_CHUNK) as server:
        client = httpx.AsyncClient(transport=transport)
        async with client.stream("GET", server.url) as response:
            assert [line async for line in response.aiter_lines()] == ["data: 1", "", "data: 2", ""]


async def test_the_status_comes_before_the_body(transport: Transport) -> None:
    async with InPieces(CHUNKED, chunk(b"later") + LAST_CHUNK) as server:
        server.go.release()
        response = await ask(transport, server.url)
        assert response.status_code == 200
        server.go.release()
        assert await read(response) == b"later"


async def test_byte_by_byte_is_the_same_response(transport: Transport) -> None:
    async with ByteByByte(b"HTTP/1.1 404 Not Here\r\nX-Y: z\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"gone") + LAST_CHUNK) as server:
        response = await ask(transport, server.url)
        assert (response.status_code, response.reason_phrase) == (404, "Not Here")
        assert await read(response) == b"gone"


@pytest.mark.parametrize("sent", [CHUNKED + chunk(b"abc"), b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"])
async def test_a_cut_message_raises_after_its_data(transport: Transport, sent: bytes) -> None:
    async with CutsShort(sent) as server:
        body = body_of(await ask(transport, server.url))
        assert await asyncio.wait_for(anext(body), SAFETY_S) == b"abc"
        with pytest.raises(httpx.RemoteProtocolError):
            await asyncio.wait_for(anext(body), SAFETY_S)


async def test_a_reset_raises_a_read_error(transport: Transport) -> None:
    async with ResetMidChunk(CHUNKED + b"10\r\nabc") as server:
        body = body_of(await ask(transport, server.url))
        assert await asyncio.wait_for(anext(body), SAFETY_S) == b"abc"
        server.reset.set()
        with pytest.raises(httpx.ReadError):
            await asyncio.wait_for(anext(body), SAFETY_S)


async def test_a_timer_around_a_read_loses_nothing(transport: Transport) -> None:
    async with InPieces(CHUNKED, chunk(b"one"), chunk(b"two") + LAST_CHUNK) as server:
        server.go.release()
        body = body_of(await ask(transport, server.url))
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(body), 0.001)
        server.go.release()
        server.go.release()
        text = b""
        async with asyncio.timeout(SAFETY_S):
            async for piece in body:
                text += piece
        assert text == b"onetwo"


async def test_a_slow_reader_makes_the_upstream_wait() -> None:
    held = 64 * 1024
    flood = CHUNKED + chunk(b"x" * 65536) * 512 + LAST_CHUNK
    async with Transport(proxies=Proxies({}), hold_bytes=held) as transport, Server(flood) as server:
        body = body_of(await ask(transport, server.url))
        await turns(300)
        first = await anext(body)
        assert len(first) <= held + 2**18  # one read of the socket more than may be held
        total = len(first)
        async with asyncio.timeout(SAFETY_S):
            async for piece in body:
                total += len(piece)
        assert total == 512 * 65536


async def test_read_timeout_between_pieces_closes_the_connection(transport: Transport) -> None:
    async with StallingBody(CHUNKED + chunk(b"abc")) as server:
        response = await ask(transport, server.url, extensions={"timeout": {"read": 0.05}})
        body = body_of(response)
        assert await anext(body) == b"abc"
        with pytest.raises(httpx.ReadTimeout) as raised:
            await anext(body)
        assert raised.value.request is response.request
        await server.until_left()


async def test_closing_an_unread_body_closes_its_connection(transport: Transport) -> None:
    async with StallingBody(CHUNKED + chunk(b"abc")) as server:
        response = await ask(transport, server.url)
        await response.aclose()
        await response.aclose()
        await server.until_left()
        await turns()
        assert transport.pool.open_count == 0
        with pytest.raises(httpx.ReadError):
            await anext(body_of(response))


async def test_closing_wakes_the_one_who_reads(transport: Transport) -> None:
    async with StallingBody(CHUNKED) as server:
        body = body_of(await ask(transport, server.url))
        reader = asyncio.ensure_future(anext(body))
        await turns()
        await body.aclose()
        with pytest.raises(httpx.ReadError):
            await asyncio.wait_for(reader, SAFETY_S)


async def test_two_cannot_read_at_once(transport: Transport) -> None:
    async with StallingBody(CHUNKED) as server:
        body = body_of(await ask(transport, server.url))
        reader = asyncio.ensure_future(anext(body))
        await turns()
        with pytest.raises(RuntimeError, match="reader already"):
            await anext(body)
        reader.cancel()


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_answers_without_content_leave_the_connection_usable(transport: Transport, method: str) -> None:
    status = b"HTTP/1.1 200 OK" if method == "HEAD" else b"HTTP/1.1 304 Not Modified"
    async with Server(status + b"\r\nContent-Length: 1000\r\n\r\n") as server:
        for _ in range(3):
            response = await ask(transport, server.url, method)
            assert response.headers["content-length"] == "1000"
            assert await read(response) == b""
        assert server.connections == 1


async def test_interim_responses_are_not_the_answer(transport: Transport) -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with InPieces(*early, b"HTTP/1.1 200 Fine\r\nContent-Length: 1\r\n\r\n!") as server:
        for _ in range(3):
            server.go.release()
        response = await ask(transport, server.url)
        assert (response.status_code, response.reason_phrase, await read(response)) == (200, "Fine", b"!")
        assert "link" not in response.headers


@pytest.mark.parametrize(
    ("sent", "part"),
    [
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "101"),
        (b"220 smtp.upstream.test ESMTP\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 200_000 + b"\r\n\r\n", "larger than 131072"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 600_000, "without an end"),
    ],
)
async def test_what_is_not_a_response_is_a_protocol_error(transport: Transport, sent: bytes, part: str) -> None:
    async with Server(sent) as server:
        with pytest.raises(httpx.RemoteProtocolError, match=part) as raised:
            await ask(transport, server.url)
        assert raised.value.request.url == server.url
        await server.until_left()


async def test_a_head_of_a_hundred_kilobytes_passes(transport: Transport) -> None:
    head = b"".join(b"X-%d: %s\r\n" % (n, b"v" * 1000) for n in range(100))
    async with Server(b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 0\r\n\r\n") as server:
        assert len((await ask(transport, server.url)).headers) == 101
