"""HTTP/2 under TLS: who chooses, and what is offered to whom."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from gateway.upstream.failures import TLSError
from gateway.upstream.proxies import Proxies
from gateway.upstream.tls import ContextFactory, context_factory
from gateway.upstream.transport import Http2, Transport
from support.http2 import Http2Upstream

from .http2_servers import Flood, Holding
from .readers import Recorder, ask, body_of, read, until
from .servers import OK, Server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def trusting(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> ContextFactory:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return context_factory(str(path), environ={})


def serving(authority: trustme.CA, *protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if protocols:
        context.set_alpn_protocols(protocols)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def transport(trusting: ContextFactory, http2: Http2) -> Transport:
    return Transport(proxies=Proxies({}), ssl_context=trusting, http2=http2)


@pytest.mark.parametrize("http2", ["auto", "true"])
async def test_an_upstream_that_speaks_http_2_is_asked_in_it(authority: trustme.CA, trusting: ContextFactory, http2: Http2) -> None:
    async with Http2Upstream(tls=serving(authority, "h2", "http/1.1")) as upstream, transport(trusting, http2) as ours:
        responses = await asyncio.gather(*(ask(ours, upstream.url) for _ in range(30)))
        assert {(response.http_version, await read(response)) for response in responses} == {("HTTP/2", b"ok")}
        assert upstream.calls[0].named(b":scheme") == b"https"
        assert (upstream.connections, ours.pool.open_count) == (1, 1)


@pytest.mark.parametrize("protocols", [(), ("http/1.1",)])
async def test_one_that_does_not_is_asked_in_http_1(authority: trustme.CA, trusting: ContextFactory, protocols: tuple[str, ...]) -> None:
    async with Server(OK, tls=serving(authority, *protocols)) as server, transport(trusting, "auto") as ours:
        responses = await asyncio.gather(*(ask(ours, server.url) for _ in range(5)))
        assert {(response.http_version, await read(response)) for response in responses} == {("HTTP/1.1", b"ok")}
        assert ours.pool.open_count <= 5


async def test_http_2_is_not_offered_where_it_is_not_wanted(authority: trustme.CA, trusting: ContextFactory) -> None:
    """Also where another transport with the same certificates offers it."""
    async with Server(OK, tls=serving(authority, "h2", "http/1.1")) as one, Http2Upstream(tls=serving(authority, "h2")) as two:
        async with transport(trusting, "false") as plain, transport(trusting, "auto") as auto:
            assert (await ask(plain, one.url)).http_version == "HTTP/1.1"
            assert (await ask(auto, two.url)).http_version == "HTTP/2"
            await plain.pool.close()
            assert plain.pool.open_count == 0
        async with transport(trusting, "false") as plain:
            assert (await ask(plain, one.url)).http_version == "HTTP/1.1"


async def test_http_2_that_is_demanded_and_not_there_is_an_error_that_says_so(authority: trustme.CA, trusting: ContextFactory) -> None:
    async with Server(OK, tls=serving(authority)) as server, transport(trusting, "true") as ours:
        with pytest.raises(TLSError, match="without HTTP/2"):
            await ask(ours, server.url)
        await until(lambda: ours.pool.open_count == 0)
        assert server.requests == []


async def test_without_tls_auto_is_http_1(trusting: ContextFactory) -> None:
    async with Server(OK) as server, transport(trusting, "auto") as ours:
        assert (await ask(ours, server.url)).http_version == "HTTP/1.1"


async def test_an_upstream_that_shares_no_more_is_asked_in_http_1(authority: trustme.CA, trusting: ContextFactory) -> None:
    async with Server(OK, tls=serving(authority, "http/1.1")) as server, transport(trusting, "auto") as ours:
        ours.sharing.know(("https", server.host, server.port), shares=True)
        answers = await asyncio.gather(*(ask(ours, server.url) for _ in range(8)))
        assert {answer.http_version for answer in answers} == {"HTTP/1.1"}


async def test_long_answers_and_uploads_pass_through(authority: trustme.CA, trusting: ContextFactory) -> None:
    async with Flood(8 * 2**20, tls=serving(authority, "h2")) as upstream, transport(trusting, "auto") as ours:
        assert len(await read(await ask(ours, upstream.url + "/slow", content=bytes(3 * 2**20)))) == 8 * 2**20
        assert len(upstream.calls[0].body) == 3 * 2**20


async def test_who_leaves_resets_the_stream_and_a_close_ends_those_that_are_left(authority: trustme.CA, trusting: ContextFactory) -> None:
    async with Holding(tls=serving(authority, "h2")) as upstream, transport(trusting, "auto") as ours:
        sink = Recorder()
        body_of(await ask(ours, upstream.url)).attach(sink)
        (await ask(ours, upstream.url)).stream.abort()  # type: ignore[union-attr]
        await upstream.until(lambda: upstream.calls[1].reset == 8)
        upstream.links[0].transport.abort()
        await sink.until_end()
        assert sink.error is not None
        await until(lambda: ours.pool.open_count == 0)


async def test_a_transport_closed_during_the_handshake_is_closed(trusting: ContextFactory) -> None:
    from .servers import NeverReads

    async with NeverReads() as server, transport(trusting, "auto") as ours:
        asked = asyncio.ensure_future(ask(ours, server.url.replace("http:", "https:")))
        await until(lambda: server.connections == 1 and ours.pool.open_count == 1)
        await ours.aclose()
        assert ours.pool.open_count == 0
        done, _ = await asyncio.wait({asked}, timeout=10)
        assert done
        assert isinstance(asked.exception(), TLSError)
