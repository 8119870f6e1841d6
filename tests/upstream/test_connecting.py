"""From a name to a socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import httpx
import pytest

from gateway.upstream.connect import Address, connect, first_socket, system_addresses
from gateway.upstream.failures import ResolveError
from gateway.upstream.http1 import Connection
from gateway.upstream.proxies import Proxies
from gateway.upstream.transport import Transport

from .readers import ask, read, until
from .servers import SAFETY_S, Server

pytestmark = pytest.mark.anyio


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is bound, so that nobody else gets it, but not listened on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port whose queue is full, so that further handshakes are not answered."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(sock.getsockname())
        yield sock.getsockname()[1]
        for filler in fillers:
            filler.close()


async def test_an_ipv6_literal(transport: Transport) -> None:
    async with Server(host="::1") as server:
        assert await read(await ask(transport, server.url)) == b"ok"
        assert f"Host: [::1]:{server.port}".encode() in server.requests[0].headers


async def test_localhost(transport: Transport) -> None:
    async with Server() as server:
        assert await read(await ask(transport, f"http://localhost:{server.port}/")) == b"ok"


async def test_a_name_whose_first_address_nobody_listens_on() -> None:
    """localhost is ::1 first on many machines, and the server listens on 127.0.0.1 only."""
    async with Server() as server:

        async def ipv6_first(host: str, port: int) -> list[Address]:
            assert host == "dual.test"
            return [(socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))]

        async with Transport(proxies=Proxies({}), resolve=ipv6_first) as transport:
            assert await read(await ask(transport, f"http://dual.test:{server.port}/")) == b"ok"


async def test_an_address_that_does_not_answer_holds_nobody_up(silent_port: int) -> None:
    async with Server() as server:
        addresses: list[Address] = [
            (socket.AF_INET, ("127.0.0.1", silent_port)),
            (socket.AF_INET, ("127.0.0.1", server.port)),
        ]
        sock = await asyncio.wait_for(first_socket(addresses), SAFETY_S)
        assert sock.getpeername() == ("127.0.0.1", server.port)
        sock.close()


async def test_who_leaves_while_connecting_leaves_no_attempt(silent_port: int) -> None:
    addresses: list[Address] = [(socket.AF_INET, ("127.0.0.1", silent_port)), (socket.AF_INET, ("127.0.0.2", silent_port))]
    before = asyncio.all_tasks()
    attempt = asyncio.create_task(first_socket([addresses[0], addresses[0]]))
    await asyncio.sleep(0.01)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_who_leaves_in_the_turn_in_which_the_connection_stands_leaves_no_socket() -> None:
    async with Server() as server:
        told: list[str] = []

        class Keeper:
            """Lets the caller leave as soon as the connection is there."""

            def opened(self, connection: Connection) -> None:
                told.append("opened")
                asked.cancel()

            def give(self, connection: Connection) -> None: ...

            def lost(self, connection: Connection) -> None: ...

            def closed(self, connection: Connection) -> None:
                told.append("closed")

        loop = asyncio.get_running_loop()
        request = httpx.Request("GET", server.url)

        def make() -> Connection:
            return Connection(("http", server.host, server.port), Keeper(), loop, 1024, 1024)

        asked = loop.create_task(connect(make, system_addresses, server.host, server.port, None, request))
        with pytest.raises(asyncio.CancelledError):
            await asked
        await until(lambda: "closed" in told)
        assert told[0] == "opened"
        await server.until_left()


async def test_a_transport_closed_while_connecting_leaves_no_connection() -> None:
    go = asyncio.Event()

    async def slow(host: str, port: int) -> list[Address]:
        await go.wait()
        return [(socket.AF_INET, ("127.0.0.1", port))]

    async with Server() as server:
        transport = Transport(proxies=Proxies({}), resolve=slow)
        asked = asyncio.create_task(ask(transport, f"http://slow.test:{server.port}/"))
        await asyncio.sleep(0.01)
        await transport.aclose()
        go.set()
        with pytest.raises(httpx.ConnectError, match="closed"):
            await asked
        await until(lambda: transport.pool.open_count == 0)
        assert server.requests == []


async def test_a_refusal_names_host_port_and_cause(transport: Transport, closed_port: int) -> None:
    with pytest.raises(httpx.ConnectError) as raised:
        await ask(transport, f"http://127.0.0.1:{closed_port}/v1?secret=1")
    assert str(raised.value) == f"cannot connect to 127.0.0.1:{closed_port}: connection refused"
    assert raised.value.request.url.port == closed_port


async def test_refusals_of_all_addresses_are_told_once(closed_port: int) -> None:
    async def two(host: str, port: int) -> list[Address]:
        return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET, ("127.0.0.2", port))]

    async with Transport(proxies=Proxies({}), resolve=two) as transport:
        with pytest.raises(httpx.ConnectError) as raised:
            await ask(transport, f"http://two.test:{closed_port}/")
        assert str(raised.value) == f"cannot connect to two.test:{closed_port}: connection refused"


async def test_a_silent_address_runs_into_the_connect_timeout(transport: Transport, silent_port: int) -> None:
    with pytest.raises(httpx.ConnectTimeout, match=f"127.0.0.1:{silent_port} within 0.05 s .still connecting"):
        await ask(transport, f"http://127.0.0.1:{silent_port}/", extensions={"timeout": {"connect": 0.05}})


async def test_a_name_without_an_address_is_told_from_a_refusal() -> None:
    async def unknown(host: str, port: int) -> list[Address]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with Transport(proxies=Proxies({}), resolve=unknown) as transport:
        with pytest.raises(ResolveError) as raised:
            await ask(transport, "http://typo.test/v1")
        assert str(raised.value) == "cannot resolve the name typo.test: Name or service not known"
        assert raised.value.request.url.host == "typo.test"


async def test_a_name_that_can_be_none_is_a_resolve_error(transport: Transport) -> None:
    with pytest.raises(ResolveError):
        await ask(transport, f"http://{'a' * 70}.test/")


@pytest.mark.parametrize("url", ["ftp://upstream.test/", "/v1", "http:///v1"])
async def test_what_is_no_http_url_is_refused(transport: Transport, url: str) -> None:
    with pytest.raises(httpx.UnsupportedProtocol):
        await ask(transport, url)


async def test_sockets_do_not_wait_to_send_and_notice_a_vanished_peer(transport: Transport) -> None:
    async with Server() as server:
        await ask(transport, server.url)
        connection = transport.pool.take(("http", server.host, server.port))
        assert connection is not None
        sock = connection._socket.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        connection.drop()
