"""Upstreams that break HTTP/2: what is one stream's fault ends that stream alone, what is the connection's ends it, and both say why."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from hpack import Encoder

from gateway.upstream.proxies import Proxies
from gateway.upstream.transport import Transport
from support.http2 import Call, Http2Upstream

from .http2_servers import Raw, Scripted, frame
from .readers import Recorder, ask, body_of, read, until

pytestmark = pytest.mark.anyio
PROTOCOL_ERROR = 1
HEAD_BYTES = 128 * 1024


def heads(number: int, *fields: tuple[bytes, bytes], end: bool = False) -> bytes:
    block = Encoder().encode(fields)
    parts = [block[at : at + 16_384] for at in range(0, len(block), 16_384)]
    flags = [(end and not index) | 4 * (index == len(parts) - 1) for index in range(len(parts))]
    return b"".join(frame(9 if index else 1, flags[index], number, part) for index, part in enumerate(parts))


STATUS = (b":status", b"200")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([(b"x", b"y")], "no status"),
        ([STATUS, STATUS], "status"),
        ([(b"x", b"y"), STATUS], "status"),
        ([(b":status", b"20")], "status"),
        ([(b":status", b"2e2")], "status"),
        ([(b":status", b"042")], "status"),
        ([STATUS, (b":path", b"/")], "forbids"),
        ([STATUS, (b"X-Upper", b"y")], "forbids"),
        ([STATUS, (b"", b"y")], "forbids"),
        ([STATUS, (b"x", b"a\r\nset-cookie: b")], "forbids"),
        ([STATUS, (b"content-length", b"+5")], "content-length"),
        ([STATUS, (b"content-length", b"5"), (b"content-length", b"6")], "content-length"),
        ([(b":status", b"101")], "101"),
        ([STATUS, *[(b"x-%d" % index, bytes(1000).replace(b"\0", b"v")) for index in range(140)]], "larger than"),
    ],
)
async def test_a_head_that_http_forbids_ends_its_stream_alone(h2c: Transport, fields: list[tuple[bytes, bytes]], said: str) -> None:
    def bad(call: Call) -> None:
        call.link.raw(heads(call.number, *fields))

    def good(call: Call) -> None:
        call.head()
        call.now(b"ok", end=True)

    async with Scripted(lambda call: None, bad, good) as upstream:
        other = asyncio.ensure_future(ask(h2c, upstream.url))
        await upstream.asked()
        with pytest.raises(httpx.RemoteProtocolError, match=said) as raised:
            await ask(h2c, upstream.url)
        assert raised.value.request.url == upstream.url
        await upstream.until(lambda: upstream.calls[1].reset == PROTOCOL_ERROR)
        good(upstream.calls[0])
        assert await read(await other) == b"ok"
        assert await read(await ask(h2c, upstream.url)) == b"ok"
        assert upstream.connections == 1


async def test_fields_of_a_connection_are_dropped_and_blanks_around_values_too(h2c: Transport) -> None:
    fields = [STATUS, (b"connection", b"keep-alive"), (b"transfer-encoding", b"chunked"), (b"x", b" y\t"), (b"content-length", b"0")]
    async with Raw(lambda number: heads(number, *fields, end=True), head=False) as upstream:
        response = await ask(h2c, upstream.url)
        assert response.headers.raw == [(b"x", b"y"), (b"content-length", b"0")]
        assert await read(response) == b""


@pytest.mark.parametrize(("length", "said"), [(b"3", "longer"), (b"9", "content-length not reached"), (b"0", "longer")])
async def test_a_body_of_another_length_than_it_says(h2c: Transport, length: bytes, said: str) -> None:
    def respond(call: Call) -> None:
        call.head(200, [(b"content-length", length)])
        call.link.raw(frame(0, 1, call.number, b"four"))

    async with Scripted(respond) as upstream:
        sink = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(sink)
        await sink.until_end()
        assert isinstance(sink.error, httpx.RemoteProtocolError)
        assert said in str(sink.error)
        assert sink.bytes in (b"", b"four")


async def test_a_head_that_ends_a_stream_which_promised_a_body(h2c: Transport) -> None:
    async with Raw(lambda number: heads(number, STATUS, (b"content-length", b"5"), end=True), head=False) as upstream:
        sink = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(sink)
        await sink.until_end()
        assert isinstance(sink.error, httpx.RemoteProtocolError)


@pytest.mark.parametrize("bytes_", [b"", b"body"])
async def test_a_body_without_a_head(h2c: Transport, bytes_: bytes) -> None:
    async with Raw(lambda number: frame(0, 1, number, bytes_), head=False) as upstream:
        with pytest.raises(httpx.RemoteProtocolError, match=r"head|without sending a response"):
            await ask(h2c, upstream.url)
        await upstream.until(lambda: upstream.calls[0].reset is not None)
        assert upstream.open_connections == 1


@pytest.mark.parametrize("status", [b"204", b"200"])
async def test_content_where_there_can_be_none(h2c: Transport, status: bytes) -> None:
    method = "HEAD" if status == b"200" else "POST"
    async with Raw(lambda number: heads(number, (b":status", status)) + frame(0, 1, number, b"x"), head=False) as upstream:
        with pytest.raises(httpx.RemoteProtocolError, match="longer"):
            await read(await ask(h2c, upstream.url, method))
        assert upstream.open_connections == 1


BAD = {
    "HTTP/1.1": (lambda n: b"HTTP/1.1 400 Bad Request\r\n\r\n", 6),
    "a frame that is too long": (lambda n: frame(1, 4, n, b"x" * 20_000), 6),
    "a push": (lambda n: frame(5, 4, n, b"\0\0\0\2" + Encoder().encode([(b":method", b"GET")])), 1),
    "data on a stream of nobody": (lambda n: frame(0, 0, n + 2, b"x"), 1),
    "data on a stream of its own": (lambda n: frame(0, 0, 2, b"x"), 1),
    "data on the connection": (lambda n: frame(0, 0, 0, b"x"), 1),
    "more padding than frame": (lambda n: frame(0, 8, n, b"\x05abc"), 1),
    "a padded frame of nothing": (lambda n: frame(0, 8, n), 1),
    "data within a header block": (lambda n: frame(1, 0, n) + frame(0, 0, n, b"x"), 1),
    "another block within a block": (lambda n: frame(1, 0, n) + frame(9, 4, n + 2), 1),
    "a continuation of nothing": (lambda n: frame(9, 4, n, b"x"), 1),
    "an endless header block": (lambda n: frame(1, 0, n) + frame(9, 0, n, b"x" * 100) * 100, 1),
    "fields that do not decode": (lambda n: frame(1, 4, n, b"\xff\xff\xff\xff\xff"), 1),
    "a window that overflows": (lambda n: frame(8, 0, 0, b"\x7f\xff\xff\xff"), 3),
    "a goodbye that is too short": (lambda n: frame(7, 0, 0, b"\0\0\0\0"), 6),
    "a setting that cannot be": (lambda n: frame(4, 0, 0, b"\0\5\0\0\0\1"), 1),
}


@pytest.mark.parametrize("trouble", BAD)
async def test_bytes_that_are_not_http_2_end_the_connection_after_what_was_good(trouble: str) -> None:
    make, code = BAD[trouble]
    async with Transport(proxies=Proxies({}), http2="true") as transport:
        async with Raw(lambda number: frame(0, 0, number, b"good") + make(number)) as upstream:
            sink = Recorder()
            response = await ask(transport, upstream.url)
            body_of(response).attach(sink)
            await sink.until_end()
            assert sink.bytes == b"good"
            assert isinstance(sink.error, httpx.RemoteProtocolError)
            assert sink.error.request is response.request
            await upstream.until(lambda: upstream.links[0].closed)
            assert upstream.links[0].gone == code
            await until(lambda: transport.pool.open_count == 0)


@pytest.mark.parametrize("trouble", ["HTTP/1.1", "fields that do not decode"])
async def test_bytes_that_are_not_http_2_instead_of_a_head(h2c: Transport, trouble: str) -> None:
    async with Raw(BAD[trouble][0], head=False) as upstream:
        with pytest.raises(httpx.RemoteProtocolError, match="not HTTP/2"):
            await ask(h2c, upstream.url)


async def test_a_head_of_many_megabytes_ends_the_connection(h2c: Transport) -> None:
    fields = [(b"x-%d" % index, b"v" * 4000) for index in range(200)]
    async with Raw(lambda number: heads(number, STATUS, *fields), head=False) as upstream:
        with pytest.raises(httpx.RemoteProtocolError):
            await ask(h2c, upstream.url)


async def test_frames_that_nobody_knows_and_late_ones_are_passed_over(h2c: Transport) -> None:
    def odd(number: int) -> bytes:
        late = frame(0, 0, 1, b"late") + frame(3, 0, 1, b"\0\0\0\0") + frame(8, 0, 1, b"\0\0\0\1")
        unknown = frame(0xFA, 7, number, b"?") + frame(2, 0, number, b"\0\0\0\0\x10") + frame(0xA, 0, number, b"\0\0")
        return late + unknown + frame(0, 0, number, b"on") + frame(0, 0, number) + frame(0, 0xF0 | 1, number, b"e")

    def answer(call: Call) -> None:
        call.head()
        call.link.raw(odd(call.number))

    async with Scripted(Call.head, answer) as upstream:
        left = await ask(h2c, upstream.url)
        await left.aclose()
        await upstream.until(lambda: upstream.calls[0].reset is not None)
        assert await read(await ask(h2c, upstream.url)) == b"one"
        assert upstream.connections == 1


async def test_a_peer_that_asks_and_does_not_read_is_left(h2c: Transport) -> None:
    async with Raw(lambda number: b"") as upstream:
        sink = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(sink)
        link = upstream.links[0]
        link.transport.pause_reading()
        ping = frame(6, 0, 0, b"12345678") * 4000
        while not sink.ended:
            link.raw(ping)
            await asyncio.sleep(0.001)
        assert isinstance(sink.error, httpx.RemoteProtocolError)
        assert "does not read" in str(sink.error)


async def test_an_upstream_that_allows_no_stream_is_told_apart(h2c: Transport) -> None:
    async with Http2Upstream(settings={3: 0}) as upstream:
        with pytest.raises(httpx.TransportError):
            await ask(h2c, upstream.url)
        assert upstream.connections <= 2
