"""Callers that go away, and upstreams that are too slow."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.upstream.proxies import Proxies
from gateway.upstream.transport import Transport

from .readers import Recorder, ask, body_of, read, turns, until
from .servers import CHUNKED, LAST_CHUNK, OK, SAFETY_S, InPieces, NeverReads, Server, StallingBody, StallingServer, chunk

pytestmark = pytest.mark.anyio


def begin(transport: Transport, server: Server, **more: object) -> asyncio.Task[httpx.Response]:
    request = httpx.Request("POST", server.url, **{"content": b"{}", **more})  # type: ignore[arg-type]
    return asyncio.create_task(transport.handle_async_request(request))


async def test_who_leaves_before_the_headers_closes_the_connection_at_once(transport: Transport) -> None:
    async with StallingServer() as server:
        asked = begin(transport, server)
        await server.until_asked()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await server.until_left()
        await turns()
        assert transport.pool.open_count == 0


async def test_who_leaves_on_a_kept_connection_closes_it_too(transport: Transport) -> None:
    async with InPieces(OK) as server:
        server.go.release()
        await ask(transport, server.url)
        asked = begin(transport, server)
        await until(lambda: len(server.requests) == 2)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await until(lambda: transport.pool.open_count == 0)
        assert server.connections == 1


async def test_who_leaves_during_an_upload_closes_the_connection(transport: Transport) -> None:
    async with NeverReads() as server:
        asked = begin(transport, server, content=bytes(25 * 2**20))
        await until(lambda: server.connections == 1)
        await turns(50)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await until(lambda: transport.pool.open_count == 0)


async def test_who_leaves_in_the_turn_of_the_answer_does_not_hurt_the_next_request(transport: Transport) -> None:
    """The answer is whole and its connection kept, or another's already, before the cancelled caller runs again."""
    async with InPieces(OK) as server:
        server.go.release()
        await ask(transport, server.url)
        connection = transport.pool.take(("http", server.host, server.port))
        assert connection is not None
        transport.pool.give(connection)
        asked = begin(transport, server)
        await until(lambda: len(server.requests) == 2)
        connection.data_received(OK)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert connection.usable
        assert transport.pool.idle_count(connection.origin) == 1
        connection.drop()


async def test_who_leaves_at_any_moment_leaks_nothing(transport: Transport) -> None:
    async with Server(CHUNKED + chunk(b"abc") + LAST_CHUNK) as server:
        for moment in range(40):
            asked = begin(transport, server, content=bytes(moment % 2 * 200_000))
            await turns(moment)
            asked.cancel()
            done, _ = await asyncio.wait({asked}, timeout=SAFETY_S)
            assert done
            if not asked.cancelled():
                assert await read(asked.result()) == b"abc"
        await until(lambda: transport.pool.open_count <= 1)
        assert await read(await ask(transport, server.url)) == b"abc"
        assert transport.pool.open_count == 1


async def test_no_answer_within_the_read_timeout(transport: Transport) -> None:
    async with StallingServer() as server:
        with pytest.raises(httpx.ReadTimeout, match=r"within 0\.05 s") as raised:
            await ask(transport, server.url, extensions={"timeout": {"read": 0.05}})
        assert raised.value.request.url == server.url
        await server.until_left()


async def test_half_a_head_is_no_answer(transport: Transport) -> None:
    async with StallingBody(b"HTTP/1.1 200 OK\r\nX-Half") as server:
        with pytest.raises(httpx.ReadTimeout):
            await ask(transport, server.url, extensions={"timeout": {"read": 0.05}})
        await server.until_left()


async def test_pushed_bodies_have_no_read_timeout(transport: Transport) -> None:
    async with InPieces(CHUNKED, chunk(b"late") + LAST_CHUNK) as server:
        server.go.release()
        response = await ask(transport, server.url, extensions={"timeout": {"read": 0.05}})
        sink = Recorder()
        body_of(response).attach(sink)
        await asyncio.sleep(0.1)
        assert sink.log == []
        server.go.release()
        await sink.until_end()
        assert (sink.bytes, sink.error) == (b"late", None)


async def test_connecting_has_its_timeout_and_says_what_it_waited_for() -> None:
    never = asyncio.Event()

    async def silent_resolver(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
        await never.wait()
        raise AssertionError

    async with Transport(proxies=Proxies({}), resolve=silent_resolver) as transport:
        with pytest.raises(httpx.ConnectTimeout, match=r"slow\.test:80 within 0\.05 s \(still resolving") as raised:
            await ask(transport, "http://slow.test/v1", extensions={"timeout": {"connect": 0.05}})
        assert raised.value.request.url.host == "slow.test"


async def test_a_transport_closed_while_a_request_waits_ends_it(transport: Transport) -> None:
    async with StallingServer() as server:
        asked = begin(transport, server)
        await server.until_asked()
        await transport.aclose()
        with pytest.raises(httpx.ReadError, match="closed"):
            await asyncio.wait_for(asked, SAFETY_S)
