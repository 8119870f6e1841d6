"""push() over streams that are not ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import respx

from gateway.upstream.body import Handle
from gateway.upstream.push import push

from .readers import Recorder, turns, until

pytestmark = pytest.mark.anyio


class Script(httpx.AsyncByteStream):
    """Gives what is put into it; None is the end, an exception is raised."""

    def __init__(self, *items: bytes | Exception | None) -> None:
        self.items: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        for item in items:
            self.items.put_nowait(item)
        self.reads = 0
        self.closed = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.reads += 1
            item = await self.items.get()
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item

    async def aclose(self) -> None:
        self.closed += 1


async def test_chunks_then_the_end() -> None:
    stream, sink = Script(b"one", b"", b"two", None), Recorder()
    push(stream, sink)
    await sink.until_end()
    assert (sink.chunks, sink.log, sink.error) == ([b"one", b"two"], ["data", "data", "end"], None)
    assert stream.closed == 1


async def test_an_error_ends_it_after_the_data() -> None:
    stream, sink = Script(b"one", httpx.ReadError("cut")), Recorder()
    push(stream, sink)
    await sink.until_end()
    assert sink.chunks == [b"one"]
    assert isinstance(sink.error, httpx.ReadError)
    assert stream.closed == 1


async def test_a_close_that_fails_does_not_spoil_a_whole_body() -> None:
    class Stubborn(Script):
        async def aclose(self) -> None:
            raise httpx.ReadError("too late")

    sink = Recorder()
    push(Stubborn(b"one", None), sink)
    await sink.until_end()
    assert sink.error is None


async def test_while_paused_nothing_is_told_and_at_most_one_chunk_read() -> None:
    stream, sink = Script(b"one", b"two", b"three", None), Recorder()
    handle = push(stream, sink)
    handle.pause()
    handle.pause()
    await turns()
    assert sink.log == []
    assert stream.reads <= 1
    handle.resume()
    await sink.until_end()
    assert sink.bytes == b"onetwothree"


async def test_a_sink_that_pauses_in_data_gets_the_rest_and_the_end_later() -> None:
    stream = Script(b"one", b"two", None)

    class Pauses(Recorder):
        def data(self, chunk: bytes) -> None:
            super().data(chunk)
            handle.pause()

    sink = Pauses()
    handle = push(stream, sink)
    for expected in ([b"one"], [b"one", b"two"]):
        await turns()
        assert sink.chunks == expected
        handle.resume()
    await sink.until_end()


async def test_the_end_waits_while_paused() -> None:
    stream, sink = Script(b"one"), Recorder()
    handle = push(stream, sink)
    await sink.until(3)
    handle.pause()
    stream.items.put_nowait(None)
    await turns()
    assert sink.log == ["data"]
    handle.resume()
    await sink.until_end()


@pytest.mark.parametrize("moment", [0, 1, 2, 5])
async def test_abort_closes_the_stream_and_tells_nothing_more(moment: int) -> None:
    stream, sink = Script(), Recorder()
    handle = push(stream, sink)
    await turns(moment)
    handle.abort()
    handle.abort()
    stream.items.put_nowait(b"late")
    await until(lambda: stream.closed == 1)
    await turns()
    assert sink.log == []


async def test_abort_while_paused_and_from_within_data() -> None:
    stream = Script(b"one", b"two", None)

    class Leaves(Recorder):
        def data(self, chunk: bytes) -> None:
            super().data(chunk)
            handle.abort()

    sink = Leaves()
    handle: Handle = push(stream, sink)
    await until(lambda: stream.closed == 1)
    assert sink.log == ["data"]

    paused_stream, paused_sink = Script(b"one", None), Recorder()
    handle = push(paused_stream, paused_sink)
    handle.pause()
    await turns()
    handle.abort()
    await until(lambda: paused_stream.closed == 1)
    assert paused_sink.log == []


async def test_abort_after_the_end_is_harmless() -> None:
    stream, sink = Script(b"one", None), Recorder()
    handle = push(stream, sink)
    await sink.until_end()
    handle.abort()
    await turns()
    assert stream.closed == 1


async def test_a_mock_transport() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Script(b"data: 1\n\n", None)))
    response = await transport.handle_async_request(httpx.Request("GET", "http://upstream.test/"))
    assert isinstance(response.stream, httpx.AsyncByteStream)
    sink = Recorder()
    push(response.stream, sink)
    await sink.until_end()
    assert sink.bytes == b"data: 1\n\n"


async def test_respx() -> None:
    router = respx.Router()
    router.post("http://upstream.test/v1").respond(200, content=b"data: 1\n\n")
    transport = httpx.MockTransport(router.async_handler)
    response = await transport.handle_async_request(httpx.Request("POST", "http://upstream.test/v1", content=b"{}"))
    assert isinstance(response.stream, httpx.AsyncByteStream)
    sink = Recorder()
    push(response.stream, sink)
    await sink.until_end()
    assert (sink.bytes, sink.error) == (b"data: 1\n\n", None)
