"""Connections that are kept, and those that should not have been."""

from __future__ import annotations

import asyncio
import gc

import httpx
import pytest

from gateway.upstream.proxies import Proxies
from gateway.upstream.transport import Transport

from .readers import Pieces, Recorder, ask, body_of, read, turns, until
from .servers import (
    CHUNKED,
    LAST_CHUNK,
    OK,
    AlwaysHangsUp,
    ClosesWhileIdle,
    InPieces,
    Server,
    StaleKeepAlive,
    StallingServer,
    chunk,
)

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def idle(transport: Transport, server: Server) -> int:
    return transport.pool.idle_count(("http", server.host, server.port))


async def test_one_connection_serves_requests_one_after_another(transport: Transport) -> None:
    async with Server(CHUNKED + chunk(b"ok") + LAST_CHUNK) as server:
        for _ in range(20):
            assert await read(await ask(transport, server.url)) == b"ok"
        assert (server.connections, idle(transport, server)) == (1, 1)


async def test_requests_at_once_have_a_connection_each_and_share_them_later(transport: Transport) -> None:
    async with InPieces(OK) as server:
        asked = [asyncio.ensure_future(ask(transport, server.url)) for _ in range(5)]
        await until(lambda: len(server.requests) == 5)
        for _ in range(10):
            server.go.release()
        await asyncio.gather(*asked)
        assert (server.connections, idle(transport, server)) == (5, 5)
        await ask(transport, server.url)
        assert (server.connections, idle(transport, server)) == (5, 5)


async def test_the_connection_given_last_is_taken_first(transport: Transport) -> None:
    async with InPieces(OK) as server:
        first, second = (asyncio.ensure_future(ask(transport, server.url)) for _ in range(2))
        await until(lambda: len(server.requests) == 2)
        server.go.release()
        server.go.release()
        await asyncio.gather(first, second)
        origin = ("http", server.host, server.port)
        last = transport.pool.take(origin)
        assert last is not None
        transport.pool.give(last)
        assert transport.pool.take(origin) is last
        last.drop()


async def test_origins_do_not_share(transport: Transport) -> None:
    async with Server() as one, Server() as other:
        await ask(transport, one.url)
        await ask(transport, other.url)
        assert (one.connections, other.connections) == (1, 1)
        assert (idle(transport, one), idle(transport, other)) == (1, 1)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"surplus",
        OK + OK,
    ],
)
async def test_a_connection_that_cannot_be_trusted_is_not_kept(transport: Transport, answer: bytes) -> None:
    async with Server(answer) as server:
        assert await read(await ask(transport, server.url)) == b"ok"
        await server.until_left()
        assert idle(transport, server) == 0
        assert await read(await ask(transport, server.url)) == b"ok"
        assert server.connections == 2


async def test_no_more_are_kept_than_allowed_and_the_oldest_goes() -> None:
    async with Transport(proxies=Proxies({}), connections_idle=2) as transport, InPieces(OK) as server:
        asked = [asyncio.ensure_future(ask(transport, server.url)) for _ in range(4)]
        await until(lambda: len(server.requests) == 4)
        for _ in range(4):
            server.go.release()
        await asyncio.gather(*asked)
        await turns()
        assert (idle(transport, server), transport.pool.open_count) == (2, 2)


async def test_none_are_kept_where_none_may_be() -> None:
    async with Transport(proxies=Proxies({}), connections_idle=0) as transport, Server() as server:
        await ask(transport, server.url)
        await turns()
        assert transport.pool.open_count == 0


async def test_an_expired_connection_is_not_used() -> None:
    clock = Clock()
    async with Transport(proxies=Proxies({}), clock=clock, idle_expiry_s=60) as transport, Server() as server:
        await ask(transport, server.url)
        clock.now += 59.9
        await ask(transport, server.url)
        assert server.connections == 1
        clock.now += 60.1
        await ask(transport, server.url)
        assert server.connections == 2
        await server.until_left()


async def test_expired_connections_are_closed_without_a_request() -> None:
    async with Transport(proxies=Proxies({}), idle_expiry_s=0.02) as transport, Server() as server:
        await ask(transport, server.url)
        assert idle(transport, server) == 1
        await server.until_left()
        assert idle(transport, server) == 0
        await ask(transport, server.url)
        assert server.connections == 2


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", b"\r\n"])
async def test_a_connection_closed_or_talking_while_idle_leaves_the_pool_at_once(transport: Transport, last_words: bytes) -> None:
    async with ClosesWhileIdle(last_words) as server:
        await ask(transport, server.url)
        assert idle(transport, server) == 1
        server.go.set()
        await until(lambda: idle(transport, server) == 0)
        assert (await ask(transport, server.url)).status_code == 200
        assert server.connections == 2


async def test_a_kept_connection_that_dies_unheard_is_replaced_once_also_for_post(transport: Transport) -> None:
    async with StaleKeepAlive() as server:
        await ask(transport, server.url)
        response = await ask(transport, server.url, content=b"again")
        assert await read(response) == b"ok"
        assert server.connections == 2
        assert server.requests[-1].body == b"again"


async def test_a_body_that_cannot_be_replayed_is_not_sent_twice(transport: Transport) -> None:
    async with StaleKeepAlive() as server:
        await ask(transport, server.url)
        with pytest.raises((httpx.RemoteProtocolError, httpx.NetworkError)):
            await ask(transport, server.url, content=None, stream=Pieces([b"once"]))
        assert server.connections == 1


async def test_the_failure_of_a_fresh_connection_is_not_retried(transport: Transport) -> None:
    async with AlwaysHangsUp() as server:
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await ask(transport, server.url)
        assert server.connections == 1


async def test_a_kept_connection_that_has_begun_to_answer_is_not_retried(transport: Transport) -> None:
    class HalfAHead(Server):
        async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self.requests) == 1:
                writer.write(OK)
                return
            writer.write(b"HTTP/1.1 200 O")
            await asyncio.sleep(0.01)
            raise ConnectionError

    async with HalfAHead() as server:
        await ask(transport, server.url)
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await ask(transport, server.url)
        assert server.connections == 1


async def test_a_timeout_on_a_kept_connection_is_not_retried(transport: Transport) -> None:
    class StallsLater(StallingServer):
        async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self.requests) == 1:
                writer.write(OK)
                return
            await super().respond(reader, writer)

    async with StallsLater() as server:
        await ask(transport, server.url)
        with pytest.raises(httpx.ReadTimeout):
            await ask(transport, server.url, extensions={"timeout": {"read": 0.05}})
        assert server.connections == 1


async def test_the_connection_is_back_before_the_end_is_told(transport: Transport) -> None:
    async with InPieces(CHUNKED, chunk(b"x") + LAST_CHUNK) as server:
        server.go.release()
        counts: list[int] = []

        class Counts(Recorder):
            def end(self, error: Exception | None) -> None:
                counts.append(idle(transport, server))
                super().end(error)

        sink = Counts()
        body_of(await ask(transport, server.url)).attach(sink)
        server.go.release()
        await sink.until_end()
        assert counts == [1]


async def test_a_whole_body_that_nobody_has_read_yet_does_not_hold_its_connection(transport: Transport) -> None:
    async with Server() as server:
        first = await ask(transport, server.url)
        second = await ask(transport, server.url)
        assert server.connections == 1
        assert (await read(first), await read(second)) == (b"ok", b"ok")


async def test_exchanges_leave_nothing_for_the_garbage_collector(transport: Transport) -> None:
    async with Server(CHUNKED + chunk(b"ok") + LAST_CHUNK) as server:
        await read(await ask(transport, server.url))

        async def plain() -> None:
            body = body_of(await transport.handle_async_request(httpx.Request("POST", server.url, content=b"{}")))
            sink = [piece async for piece in body]
            assert sink == [b"ok"]

        await plain()
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(10):
                await plain()
            gc.collect()
            ours = [thing for thing in gc.garbage if type(thing).__module__.startswith(("gateway", "httptools", "httpx"))]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert ours == []


async def test_closing_the_transport_closes_idle_connections(transport: Transport) -> None:
    async with Server() as server:
        await ask(transport, server.url)
        await transport.aclose()
        await server.until_left()
        assert transport.pool.open_count == 0
