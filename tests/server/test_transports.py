"""Any httpx transport can stand in for ours: the seam that respx and httpx's own mock use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest
import respx

from gateway.server.app import application
from gateway.server.gateway import Gateway
from support.chunks import collect, words
from support.client import chat_body
from support.gateway import settings_for
from support.plays import sse

pytestmark = pytest.mark.anyio

URL = "http://upstream.test/v1"
SSE = {"content-type": "text/event-stream"}


class Asgi:
    """One request to the application itself, with all that it sends."""

    def __init__(self, body: bytes, path: str = "/v1/chat/completions", method: str = "POST") -> None:
        self.scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
        }  # fmt: skip
        self.sent: list[dict[str, object]] = []
        self._messages: list[dict[str, object]] = [{"type": "http.request", "body": body, "more_body": False}]
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, object]:
        if self._messages:
            return self._messages.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, object]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> object:
        return self.sent[0]["status"]

    @property
    def body(self) -> bytes:
        return b"".join(bytes(message.get("body", b"")) for message in self.sent[1:])  # type: ignore[call-overload]

    async def through(self, transport: httpx.AsyncBaseTransport) -> None:
        gateway = Gateway(settings_for(URL), asyncio.get_running_loop(), transport=transport)
        await application(gateway)(self.scope, self.receive, self.send)
        assert not gateway.exchanges
        await gateway.close()


def said(body: bytes) -> str:
    datas = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line.startswith("data: ")]
    return collect(datas).first.content


async def test_httpx_mock_transport_serves_streams() -> None:
    asked: list[httpx.Request] = []

    async def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, headers=SSE, content=sse(words("mock", "ed")))

    asgi = Asgi(chat_body())
    await asgi.through(httpx.MockTransport(handler))
    assert (asgi.status, said(asgi.body)) == (200, "mocked")
    assert str(asked[0].url) == f"{URL}/chat/completions"
    assert await asked[0].aread() == chat_body()


async def test_respx_serves_streams_and_plain_answers() -> None:
    with respx.mock(assert_all_called=True) as router:
        router.post(f"{URL}/chat/completions").mock(httpx.Response(200, headers=SSE, content=sse(words("respx"))))
        router.get(f"{URL}/models").mock(httpx.Response(200, json={"data": []}))
        transport = httpx.MockTransport(router.async_handler)
        asgi = Asgi(chat_body())
        await asgi.through(transport)
        assert said(asgi.body) == "respx"
        asgi = Asgi(b"", "/v1/models", "GET")
        await asgi.through(transport)
        assert (asgi.status, asgi.body) == (200, b'{"data":[]}')


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (httpx.ConnectError("refused"), 502, b"upstream_unreachable"),
        (httpx.ConnectTimeout("slow"), 504, b"upstream_connect_timeout"),
        (httpx.ReadTimeout("slow"), 504, b"upstream_headers_timeout"),
        (httpx.ReadError("reset"), 502, b"upstream_reset"),
        (httpx.RemoteProtocolError("garbage"), 502, b"upstream_protocol"),
        (ValueError("a fault of the transport's own"), 500, b"internal"),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_errors_of_a_transport_are_answered_by_phase(error: Exception, status: int, code: bytes, streamed: bool) -> None:
    async def handler(request: httpx.Request) -> httpx.Response:
        raise error

    asgi = Asgi(chat_body(stream=streamed))
    async with asyncio.timeout(20):
        await asgi.through(httpx.MockTransport(handler))
    assert asgi.status == status
    assert code in asgi.body


class Body(httpx.AsyncByteStream):
    """Events, then whatever trouble `after` makes. closed: it was let go of."""

    def __init__(self, after: Exception | None = None, hangs: bool = False) -> None:
        self.closed = asyncio.Event()
        self._after, self._hangs = after, hangs

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for data in words("one", " two")[:3]:
            yield sse([data])
            await asyncio.sleep(0)
        if self._hangs:
            await asyncio.Event().wait()
        if self._after is not None:
            raise self._after

    async def aclose(self) -> None:
        self.closed.set()


class Foreign(httpx.AsyncBaseTransport):
    def __init__(self, body: Body) -> None:
        self.body = body

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers=SSE, stream=self.body)


@pytest.mark.parametrize("error", [None, httpx.ReadError("reset"), ValueError("a fault of the transport's own")])
async def test_a_foreign_stream_that_breaks_ends_with_an_error_and_is_closed(error: Exception | None) -> None:
    body = Body(error)
    asgi = Asgi(chat_body())
    async with asyncio.timeout(20):
        await asgi.through(Foreign(body))
    assert said(asgi.body) == "one two"
    assert (b"upstream_incomplete" if error is None else b"upstream_reset") in asgi.body
    assert asgi.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert body.closed.is_set()


async def test_a_foreign_stream_is_closed_when_the_client_leaves() -> None:
    body = Body(hangs=True)
    asgi = Asgi(chat_body())
    async with asyncio.timeout(20):
        serving = asyncio.get_running_loop().create_task(asgi.through(Foreign(body)))
        while b"two" not in asgi.body:
            await asyncio.sleep(0)
        asgi.left.set()
        await serving
        await body.closed.wait()


async def test_a_client_that_raises_when_it_is_written_to_has_left() -> None:
    body = Body(hangs=True)
    asgi = Asgi(chat_body())

    async def send(message: dict[str, object]) -> None:
        asgi.sent.append(message)
        if message["type"] == "http.response.body":
            raise OSError("gone")

    asgi.send = send  # type: ignore[method-assign]
    async with asyncio.timeout(20):
        with contextlib.suppress(OSError):
            await asgi.through(Foreign(body))
        await body.closed.wait()
    assert len(asgi.sent) == 2
