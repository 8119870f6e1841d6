"""Requests whose way leads through a proxy: a real one on loopback that knows where names lead."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl

import httpx
import pytest
import trustme

from gateway.upstream.body import Body
from gateway.upstream.proxies import Proxies
from gateway.upstream.push import push
from gateway.upstream.transport import Transport

from .readers import Recorder, ask, read
from .servers import CHUNKED, LAST_CHUNK, Server, chunk

pytestmark = pytest.mark.anyio


class ForwardingProxy(Server):
    """Takes CONNECT and absolute-form requests, and leads every name to one port of loopback."""

    def __init__(self, target: Server) -> None:
        super().__init__()
        self.target = target
        self.heads: list[bytes] = []

    @property
    def proxy_url(self) -> str:
        return f"http://user:hunter2@127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target.port)
        if head.startswith(b"CONNECT "):
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            line, rest = head.split(b"\r\n", 1)
            method, url, version = line.split(b" ")
            there_writer.write(b"%b %b %b\r\n%b" % (method, httpx.URL(url.decode()).raw_path, version, rest))

        async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        try:
            await asyncio.gather(carry(reader, there_writer), carry(there_reader, writer))
        finally:
            there_writer.transport.abort()


async def test_plain_http_goes_through_and_its_stream_can_be_pushed() -> None:
    async with Server(CHUNKED + chunk(b"one") + chunk(b"two") + LAST_CHUNK) as server, ForwardingProxy(server) as proxy:
        async with Transport(proxies=Proxies({"HTTP_PROXY": proxy.proxy_url})) as transport:
            response = await ask(transport, "http://upstream.test/v1", headers={"X-A": "1"})
            assert response.status_code == 200
            assert isinstance(response.stream, httpx.AsyncByteStream)
            sink = Recorder()
            push(response.stream, sink)
            await sink.until_end()
            assert (sink.bytes, sink.error) == (b"onetwo", None)
        assert proxy.heads[0].startswith(b"POST http://upstream.test/v1 HTTP/1.1\r\n")
        assert base64.b64encode(b"user:hunter2") in proxy.heads[0]
        assert server.requests[0].head.startswith(b"POST /v1 HTTP/1.1\r\n")
        assert server.requests[0].body == b"{}"


async def test_https_goes_through_a_tunnel_with_the_same_trust() -> None:
    authority = trustme.CA()
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("upstream.test").configure_cert(serving)
    authority.configure_trust(trusting)
    async with Server(tls=serving) as server, ForwardingProxy(server) as proxy:
        proxies = Proxies({"HTTPS_PROXY": proxy.proxy_url})
        async with Transport(proxies=proxies, ssl_context=lambda: trusting) as transport:
            response = await ask(transport, "https://upstream.test/v1")
            assert await response.aread() == b"ok"
            await response.aclose()
        assert proxy.heads[0].startswith(b"CONNECT upstream.test:443 ")
        async with Transport(proxies=proxies) as doubtful:
            with pytest.raises(httpx.ConnectError) as raised:
                await ask(doubtful, "https://upstream.test/v1")
            assert raised.value.request.url.host == "upstream.test"


async def test_exempt_origins_and_loopback_go_directly() -> None:
    async with Server() as server, ForwardingProxy(server) as proxy:
        environ = {"ALL_PROXY": proxy.proxy_url, "NO_PROXY": "exempt.test"}

        async def loopback(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
            return [(2, ("127.0.0.1", port))]

        async with Transport(proxies=Proxies(environ), resolve=loopback) as transport:
            for host in ("127.0.0.1", "localhost", "exempt.test", "api.exempt.test"):
                response = await ask(transport, f"http://{host}:{server.port}/")
                assert isinstance(response.stream, Body)
                assert await read(response) == b"ok"
        assert proxy.connections == 0


async def test_a_variable_that_is_no_proxy_is_a_clear_error() -> None:
    async with Transport(proxies=Proxies({"HTTPS_PROXY": "ftp://user:hunter2@proxy"})) as transport:
        with pytest.raises(httpx.ProxyError, match="HTTPS_PROXY") as raised:
            await ask(transport, "https://upstream.test/")
        assert raised.value.request.url.host == "upstream.test"
        assert "hunter2" not in str(raised.value)


async def test_a_proxy_that_cannot_be_reached_is_an_error_with_its_request() -> None:
    async with Server() as gone:
        port = gone.port
    async with Transport(proxies=Proxies({"HTTP_PROXY": f"http://127.0.0.1:{port}"})) as transport:
        with pytest.raises(httpx.ConnectError) as raised:
            await ask(transport, "http://upstream.test/")
        assert raised.value.request.url.host == "upstream.test"
