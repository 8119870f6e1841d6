"""TLS towards the upstream: whom it trusts, what it says when it does not, and that nothing is lost under it."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from pathlib import Path

import httpx
import pytest
import trustme
from OpenSSL import crypto

from gateway.upstream.connect import Address
from gateway.upstream.failures import TLSError
from gateway.upstream.proxies import Proxies
from gateway.upstream.tls import ContextFactory, TrustError, context_factory
from gateway.upstream.transport import Transport

from .readers import Recorder, ask, body_of, read, turns, until
from .servers import (
    CHUNKED,
    LAST_CHUNK,
    OK,
    SAFETY_S,
    CutsShort,
    InPieces,
    NeverReads,
    Server,
    StallingServer,
    Swallows,
    VanishesUnderTLS,
    chunk,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA(organization_name="A company")


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture(scope="module")
def trusting(ca_file: str) -> ContextFactory:
    return context_factory(ca_file, environ={})


def serving(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    return context


def trusting_transport(factory: ContextFactory, **more: object) -> Transport:
    return Transport(proxies=Proxies({}), ssl_context=factory, **more)  # type: ignore[arg-type]


async def test_ca_file_is_trusted(authority: trustme.CA, trusting: ContextFactory) -> None:
    async with Server(tls=serving(authority)) as server, trusting_transport(trusting) as transport:
        for _ in range(3):
            assert await read(await ask(transport, server.url)) == b"ok"
        assert server.connections == 1


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_what_the_environment_names_is_trusted(authority: trustme.CA, variable: str, ca_file: str, tmp_path: Path) -> None:
    value = ca_file if variable == "SSL_CERT_FILE" else f"{_hashed_directory(ca_file, tmp_path)}:{tmp_path}"
    factory = context_factory(environ={variable: value})
    async with Server(tls=serving(authority)) as server, trusting_transport(factory) as transport:
        assert await read(await ask(transport, server.url)) == b"ok"


def _hashed_directory(ca_file: str, directory: Path) -> Path:
    """The certificate under the name by which OpenSSL looks for it in a directory."""
    certificate = crypto.load_certificate(crypto.FILETYPE_PEM, Path(ca_file).read_bytes())
    told = f"{certificate.subject_name_hash():08x}"
    (directory / f"{told}.0").write_bytes(Path(ca_file).read_bytes())
    return directory


async def test_a_private_authority_does_not_take_the_public_ones_away(ca_file: str) -> None:
    with_private = context_factory(ca_file, environ={"SSL_CERT_FILE": ca_file})()
    without = context_factory(environ={})()
    assert without.cert_store_stats()["x509_ca"] > 50
    assert with_private.cert_store_stats()["x509_ca"] == without.cert_store_stats()["x509_ca"] + 1


def test_verification_is_on_and_the_context_made_once(trusting: ContextFactory) -> None:
    context = trusting()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert trusting() is context


async def test_an_unknown_authority_is_refused_with_the_remedy(authority: trustme.CA) -> None:
    async with Server(tls=serving(authority)) as server, trusting_transport(context_factory(environ={})) as transport:
        with pytest.raises(TLSError) as raised:
            await ask(transport, server.url)
        assert f"127.0.0.1:{server.port}" in str(raised.value)
        assert "issuer that is not trusted" in str(raised.value)
        assert "SSL_CERT_FILE" in str(raised.value)
        assert raised.value.request.url == server.url
        await until(lambda: transport.pool.open_count == 0)
        assert server.requests == []


async def test_a_certificate_for_another_name_is_refused(authority: trustme.CA, trusting: ContextFactory) -> None:
    async with Server(tls=serving(authority, "other.test")) as server, trusting_transport(trusting) as transport:
        with pytest.raises(TLSError, match=r"not for 127\.0\.0\.1"):
            await ask(transport, server.url)


async def test_the_servers_name_is_told_and_only_http_1_is_offered(authority: trustme.CA, trusting: ContextFactory) -> None:
    names: list[str | None] = []
    context = serving(authority, "named.test")
    context.sni_callback = lambda sock, name, ctx: names.append(name)

    async def loopback(host: str, port: int) -> list[Address]:
        return [(2, ("127.0.0.1", port))]

    async with Server(tls=context) as server, trusting_transport(trusting, resolve=loopback) as transport:
        assert await read(await ask(transport, f"https://named.test:{server.port}/")) == b"ok"
    assert names == ["named.test"]


async def test_an_expired_certificate_is_named_so(authority: trustme.CA, trusting: ContextFactory) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    authority.issue_cert("127.0.0.1", not_before=long_ago, not_after=long_ago + datetime.timedelta(1)).configure_cert(context)
    async with Server(tls=context) as server, trusting_transport(trusting) as transport:
        with pytest.raises(TLSError, match="expired"):
            await ask(transport, server.url)


async def test_plain_http_where_tls_was_expected_is_said(trusting: ContextFactory) -> None:
    class Talks(Server):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            await reader.read()

    async with Talks() as server, trusting_transport(trusting) as transport:
        with pytest.raises(TLSError, match="plain http"):
            await ask(transport, server.url.replace("http:", "https:"))


async def test_a_peer_that_hangs_up_in_the_handshake(trusting: ContextFactory) -> None:
    class HangsUp(Server):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)

    async with HangsUp() as server, trusting_transport(trusting) as transport:
        with pytest.raises(TLSError, match=f"127.0.0.1:{server.port} failed: "):
            await ask(transport, server.url.replace("http:", "https:"))


async def test_the_connect_timeout_covers_the_handshake(trusting: ContextFactory) -> None:
    async with NeverReads() as server, trusting_transport(trusting) as transport:
        with pytest.raises(httpx.ConnectTimeout, match="negotiating TLS"):
            await ask(transport, server.url.replace("http:", "https:"), extensions={"timeout": {"connect": 0.05}})
        await until(lambda: transport.pool.open_count == 0)


@pytest.mark.parametrize("named_by", ["ca_file", "SSL_CERT_FILE", "SSL_CERT_DIR"])
@pytest.mark.parametrize("content", [None, b"no certificate"])
async def test_a_certificate_file_of_no_use_is_named(tmp_path: Path, named_by: str, content: bytes | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    factory = context_factory(str(path), environ={}) if named_by == "ca_file" else context_factory(environ={named_by: str(path)})
    with pytest.raises(TrustError, match=named_by):
        factory()
    async with trusting_transport(factory) as transport:
        with pytest.raises(TLSError, match=named_by):
            await ask(transport, "https://upstream.test/")


async def test_a_stream_is_pushed_read_by_read(authority: trustme.CA, trusting: ContextFactory) -> None:
    pieces = (CHUNKED, chunk(b"one") + chunk(b"two"), chunk(b"three") + LAST_CHUNK)
    async with InPieces(*pieces, tls=serving(authority)) as server, trusting_transport(trusting) as transport:
        server.go.release()
        sink = Recorder()
        body_of(await ask(transport, server.url)).attach(sink)
        server.go.release()
        await sink.until(6)
        server.go.release()
        await sink.until_end()
        assert sink.chunks == [b"onetwo", b"three"]
        assert sink.log == ["data", "data", "end"]
        assert transport.pool.open_count == 1


async def test_a_flood_arrives_whole_and_a_pause_holds_it(authority: trustme.CA, trusting: ContextFactory) -> None:
    flood = CHUNKED + chunk(bytes(range(256)) * 4096) * 24 + LAST_CHUNK
    async with Server(flood, tls=serving(authority)) as server, trusting_transport(trusting) as transport:
        sink = Recorder()
        body = body_of(await ask(transport, server.url))
        body.attach(sink)
        body.pause()
        before = len(sink.log)
        await turns(100)
        assert len(sink.log) == before
        body.resume()
        await sink.until_end()
        assert sink.bytes == bytes(range(256)) * 4096 * 24
        assert sink.error is None


@pytest.mark.parametrize("kind", [CutsShort, VanishesUnderTLS])
async def test_what_came_before_the_peer_closed_is_not_lost_by_a_pause(
    authority: trustme.CA, trusting: ContextFactory, kind: type[Server]
) -> None:
    """uvloop's own TLS loses it where the peer does not say goodbye."""
    whole = CHUNKED + chunk(b"x" * 1000) * 20 + LAST_CHUNK
    async with kind(whole, tls=serving(authority)) as server, trusting_transport(trusting) as transport:
        body = body_of(await ask(transport, server.url))
        body.pause()
        await server.until_left()
        await turns()
        sink = Recorder()
        body.attach(sink)
        await sink.until_end()
        assert (len(sink.bytes), sink.error) == (20_000, None)


async def test_without_a_length_only_tls_goodbye_is_a_proper_end(authority: trustme.CA, trusting: ContextFactory) -> None:
    endless = b"HTTP/1.1 200 OK\r\n\r\nabc"
    for kind, proper in ((CutsShort, True), (VanishesUnderTLS, False)):
        async with kind(endless, tls=serving(authority)) as server, trusting_transport(trusting) as transport:
            sink = Recorder()
            body_of(await ask(transport, server.url)).attach(sink)
            await sink.until_end()
            assert sink.bytes == b"abc"
            assert (sink.error is None) is proper
            assert proper or isinstance(sink.error, httpx.RemoteProtocolError)


async def test_a_large_upload_arrives(authority: trustme.CA, trusting: ContextFactory) -> None:
    async with Swallows(tls=serving(authority)) as server, trusting_transport(trusting) as transport:
        response = await ask(transport, server.url, content=bytes(10 * 2**20))
        assert (response.status_code, server.swallowed_bytes) == (200, 10 * 2**20)


async def test_who_leaves_closes_at_once(authority: trustme.CA, trusting: ContextFactory) -> None:
    async with StallingServer(tls=serving(authority)) as server, trusting_transport(trusting) as transport:
        asked = asyncio.create_task(transport.handle_async_request(httpx.Request("GET", server.url)))
        await server.until_asked()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await server.until_left()
        await until(lambda: transport.pool.open_count == 0)


async def test_who_leaves_at_any_moment_leaks_nothing(authority: trustme.CA, trusting: ContextFactory) -> None:
    async with Server(tls=serving(authority)) as server, trusting_transport(trusting) as transport:
        await transport._trust(httpx.Request("GET", server.url))
        for moment in range(30):
            asked = asyncio.create_task(transport.handle_async_request(httpx.Request("GET", server.url)))
            await turns(moment)
            asked.cancel()
            done, _ = await asyncio.wait({asked}, timeout=SAFETY_S)
            assert done
        await until(lambda: transport.pool.open_count <= 1)
        assert await read(await ask(transport, server.url)) == b"ok"


async def test_an_idle_connection_that_the_peer_ends_leaves_the_pool(authority: trustme.CA, trusting: ContextFactory) -> None:
    async with CutsShort(OK, tls=serving(authority)) as server, trusting_transport(trusting) as transport:
        assert await read(await ask(transport, server.url)) == b"ok"
        await until(lambda: transport.pool.open_count == 0)
        assert await read(await ask(transport, server.url)) == b"ok"
        assert server.connections == 2
