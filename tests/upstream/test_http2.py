"""Exchanges over HTTP/2: what goes out, what comes back, and that a body is pushed and read as over HTTP/1.1."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.upstream.push import push
from gateway.upstream.transport import Transport
from support.http2 import Call, Http2Upstream

from .http2_servers import Flood, Holding, Scripted
from .readers import Pieces, Recorder, ask, body_of, read, turns, until

pytestmark = pytest.mark.anyio


async def test_a_request_and_its_answer(h2c: Transport) -> None:
    async with Http2Upstream(b"data: x\n\n") as upstream:
        response = await ask(
            h2c,
            upstream.url + "?a=b",
            headers=[("Host", "api.test"), ("Authorization", "Bearer k"), ("Connection", "close")],
            content=b"{}",
        )
        assert (response.status_code, response.http_version) == (200, "HTTP/2")
        assert response.headers.raw == [(b"content-type", b"text/event-stream; charset=utf-8")]
        assert await read(response) == b"data: x\n\n"
    assert upstream.calls[0].fields == [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":authority", b"api.test"),
        (b":path", b"/v1/chat/completions?a=b"),
        (b"authorization", b"Bearer k"),
        (b"content-length", b"2"),
    ]
    assert upstream.calls[0].body == b"{}"


async def test_long_names_and_values_arrive_as_they_are(h2c: Transport) -> None:
    fields = [(b"x-" + b"n" * size, b"v" * size) for size in (1, 125, 126, 127, 128, 254, 255, 300, 9000)]
    async with Http2Upstream() as upstream:
        for _ in range(2):
            await read(await ask(h2c, upstream.url, headers=fields))
    for call in upstream.calls:
        assert call.fields[4:-1] == fields


async def test_it_works_under_httpx_own_client(h2c: Transport) -> None:
    async with Http2Upstream(b'{"a":1}') as upstream:
        client = httpx.AsyncClient(transport=h2c)
        response = await client.post(upstream.url, json={"b": 2})
        assert (response.json(), response.reason_phrase) == ({"a": 1}, "OK")
    assert upstream.calls[0].body == b'{"b":2}'


async def test_requests_at_once_share_a_connection(h2c: Transport) -> None:
    async with Http2Upstream() as upstream:
        responses = await asyncio.gather(*(ask(h2c, upstream.url) for _ in range(60)))
        assert [await read(response) for response in responses] == [b"ok"] * 60
        assert upstream.connections == 1


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_a_request_without_a_body_ends_with_its_head(h2c: Transport, method: str) -> None:
    def respond(call: Call) -> None:
        call.head(200, [(b"content-length", b"7")], end=method == "HEAD")
        if method != "HEAD":
            call.now(b"seven b", end=True)

    async with Scripted(respond) as upstream:
        response = await ask(h2c, upstream.url, method)
        assert response.headers["content-length"] == "7"
        assert await read(response) == (b"" if method == "HEAD" else b"seven b")
        assert dict(upstream.calls[0].fields).keys() == {b":method", b":scheme", b":authority", b":path"}


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("late", [True, False])
async def test_answers_without_content_only_end(h2c: Transport, status: int, late: bool) -> None:
    def respond(call: Call) -> None:
        call.head(status, [(b"content-length", b"9")] if status == 304 else [], end=not late)
        if late:
            call.end()

    async with Scripted(respond) as upstream:
        sink = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(sink)
        await sink.until_end()
        assert (sink.log, sink.error) == (["end"], None)


async def test_interim_answers_are_skipped_and_trailers_dropped(h2c: Transport) -> None:
    def respond(call: Call) -> None:
        call.head(103, [(b"link", b"</x>")])
        call.head(100, [])
        call.head(200, [(b"x-final", b"1")])
        call.now(b"body")
        call.end(trailers=[(b"grpc-status", b"0")])

    async with Scripted(respond) as upstream:
        response = await ask(h2c, upstream.url)
        assert response.headers.raw == [(b"x-final", b"1")]
        assert await read(response) == b"body"


async def test_each_read_of_the_socket_is_one_call_for_a_stream(h2c: Transport) -> None:
    async def respond(call: Call) -> None:
        call.head()
        await upstream.go.wait()
        h2 = call.link.h2
        for word in (b"one", b"two", b"three"):
            h2.send_data(call.number, word)
        h2.end_stream(call.number)
        call.link.flush()

    async with Scripted(respond) as upstream:
        upstream.go = asyncio.Event()
        sink = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(sink)
        upstream.go.set()
        await sink.until_end()
    assert (sink.chunks, sink.log, sink.error) == ([b"onetwothree"], ["data", "end"], None)


async def test_a_payload_does_not_wait_until_its_frame_is_whole(h2c: Transport) -> None:
    def respond(call: Call) -> None:
        call.head()
        call.link.raw((10).to_bytes(3, "big") + b"\0\1" + call.number.to_bytes(4, "big") + b"half ")

    async with Scripted(respond) as upstream:
        sink = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(sink)
        await sink.until(5)
        assert sink.log == ["data"]
        upstream.links[0].raw(b"whole")
        await sink.until_end()
    assert (sink.bytes, sink.error) == (b"half whole", None)


async def test_what_came_before_the_sink_is_delivered_when_it_is_attached(h2c: Transport) -> None:
    async with Http2Upstream(b"early") as upstream:
        response = await ask(h2c, upstream.url)
        await until(lambda: not h2c.sharing.take(("http", upstream.host, upstream.port)).busy)  # type: ignore[union-attr]
        sink = Recorder()
        body_of(response).attach(sink)
        assert (sink.bytes, sink.log) == (b"early", ["data", "end"])


async def test_push_of_the_body_is_the_body_itself_without_a_task(h2c: Transport) -> None:
    async with Holding() as upstream:
        body = body_of(await ask(h2c, upstream.url))
        before = len(asyncio.all_tasks())
        assert push(body, Recorder()) is body
        assert len(asyncio.all_tasks()) == before


async def test_while_paused_nothing_is_told_not_even_the_end_and_then_all_of_it(h2c: Transport) -> None:
    async with Holding() as upstream:
        sink = Recorder()
        body = body_of(await ask(h2c, upstream.url))
        body.attach(sink)
        await sink.until(5)
        body.pause()
        upstream.go.set()
        await until(lambda: not h2c.sharing.take(("http", upstream.host, upstream.port)).busy)  # type: ignore[union-attr]
        await turns()
        assert sink.log == ["data"]
        body.resume()
        assert sink.log == ["data"]  # not from within: the reader may be in the middle of something
        await sink.until_end()
    assert (sink.chunks, sink.log, sink.error) == ([b"first", b"last"], ["data", "data", "end"], None)


async def test_a_reader_that_aborts_while_paused_hears_nothing(h2c: Transport) -> None:
    async with Holding() as upstream:
        sink = Recorder()
        body = body_of(await ask(h2c, upstream.url))
        body.attach(sink)
        await sink.until(5)
        body.pause()
        upstream.go.set()
        await until(lambda: not h2c.sharing.take(("http", upstream.host, upstream.port)).busy)  # type: ignore[union-attr]
        body.resume()
        body.abort()
        await turns()
        assert sink.log == ["data"]


async def test_a_reader_by_iteration_gets_all_of_a_long_answer(h2c: Transport) -> None:
    async with Flood(20 * 2**20) as upstream:
        response = await ask(h2c, upstream.url + "/slow")
        assert len(await read(response)) == 20 * 2**20


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 5 * 2**20])
async def test_uploads_keep_to_the_upstreams_windows(h2c: Transport, size: int) -> None:
    async with Http2Upstream() as upstream:
        body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        assert await read(await ask(h2c, upstream.url, content=body)) == b"ok"
        assert upstream.calls[0].body == body


async def test_an_upload_in_pieces_ends_where_it_ends(h2c: Transport) -> None:
    async with Http2Upstream() as upstream:
        pieces = [b"one", b"", b"two" * 50_000]
        await read(await ask(h2c, upstream.url, content=None, stream=Pieces(pieces), headers={"transfer-encoding": "chunked"}))
        assert upstream.calls[0].body == b"".join(pieces)
        assert upstream.calls[0].named(b"transfer-encoding") is None


@pytest.mark.parametrize("length", [2, 9])
async def test_an_upload_of_another_length_than_it_says_is_cut(h2c: Transport, length: int) -> None:
    async with Http2Upstream() as upstream:
        with pytest.raises(httpx.LocalProtocolError, match="content-length"):
            await ask(h2c, upstream.url, content=None, stream=Pieces([b"four"]), headers={"content-length": str(length)})
        await upstream.until(lambda: upstream.calls and upstream.calls[0].reset == 8)
        assert await read(await ask(h2c, upstream.url)) == b"ok"
        assert upstream.connections == 1


async def test_a_stalled_upload_ends_by_its_timeout_and_holds_up_nobody(h2c: Transport) -> None:
    async with Http2Upstream() as upstream:
        timeout = {"timeout": {"write": 0.1}}
        stalled = asyncio.ensure_future(ask(h2c, upstream.url + "/untaken", content=bytes(200_000), extensions=timeout))
        await upstream.until(lambda: upstream.calls and len(upstream.calls[0].body) == 65_535)
        assert await read(await ask(h2c, upstream.url, content=bytes(100_000))) == b"ok"
        with pytest.raises(httpx.WriteTimeout):
            await stalled
        await upstream.until(lambda: upstream.calls[0].reset == 8)
        assert upstream.connections == 1


async def test_an_upstream_that_refuses_early_gets_no_more_of_the_body(h2c: Transport) -> None:
    class Refuses(Http2Upstream):
        def begun(self, call: Call) -> None:
            call.head(413, [(b"content-length", b"3")])
            call.now(b"big", end=True)

        async def respond(self, call: Call) -> None: ...

    async with Refuses() as upstream:
        response = await ask(h2c, upstream.url, content=bytes(10 * 2**20))
        assert (response.status_code, await read(response)) == (413, b"big")
        await upstream.until(lambda: upstream.calls[0].reset == 0)
        assert len(upstream.calls[0].body) < 10 * 2**20


async def test_no_answer_within_the_read_timeout(h2c: Transport) -> None:
    async with Scripted(lambda call: None) as upstream:
        with pytest.raises(httpx.ReadTimeout, match=r"within 0\.05 s") as raised:
            await ask(h2c, upstream.url, extensions={"timeout": {"read": 0.05}})
        assert raised.value.request.url == upstream.url
        await upstream.until(lambda: upstream.calls[0].reset == 8)
