"""Connections without sockets: what an upstream or a client may say to each, byte by byte, and what must hold whatever it says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

import h2.config
import h2.connection
import httpx
from uvicorn.config import Config
from uvicorn.server import ServerState

from fuzz.mutations import cuts
from gateway.server.incoming import Bounds, bounded
from gateway.server.protocol import Protocol
from gateway.settings import Listen
from gateway.upstream.http1 import Connection
from gateway.upstream.http2 import CONNECTION_BYTES, SharedConnection
from gateway.upstream.request import encode

HEAD_BYTES: Final = 16 * 1024
HOLD_BYTES: Final = 64 * 1024
ORIGIN: Final = ("http", "upstream", 80)


class Socket:
    """What is written to it is counted, no more."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def write(self, data: bytes | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closing = True

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write_eof(self) -> None:
        self.closing = True

    def pause_reading(self) -> None:
        return

    resume_reading = pause_reading


class Keeper:
    """Of a connection that is never used again."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: 100 if name == "streams_at_most" else None


class Sink:
    def __init__(self) -> None:
        self.size = self.ends = 0

    def data(self, chunk: bytes) -> None:
        assert chunk
        assert not self.ends
        self.size += len(chunk)

    def end(self, error: Exception | None) -> None:
        assert error is None or isinstance(error, httpx.TransportError)
        self.ends += 1


def loop_for_fuzzing() -> asyncio.AbstractEventLoop:
    """Never run: it makes futures and timers, which nobody waits for."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


def _answer(loop: asyncio.AbstractEventLoop, connection: Any, data: bytes, chance: random.Random) -> None:
    """One exchange whose answer is these bytes and then the connection's end. The only errors are httpx's, and they come in one place."""
    request = httpx.Request(chance.choice(("POST", "POST", "GET", "HEAD")), "http://upstream/v1/x", content=b"{}")
    socket, sink = Socket(), Sink()
    connection.connection_made(socket)
    exchange = connection.exchange(encode(request), request, None, None)
    waiting = exchange.send(None)
    response, over = None, False
    for part in [*cuts(chance, data), None]:
        if part is None:
            connection.connection_lost(None)
        elif not socket.closing and part:
            connection.data_received(part)
        if response is None and not over and waiting.done():
            try:
                exchange.send(None)
            except StopIteration as done:
                response = done.value
                if chance.random() < 0.8:
                    response.stream.attach(sink)
                elif chance.random() < 0.5:
                    response.stream.abort()
            except httpx.TransportError:
                over = True
    if response is None and not over:  # it closed before it answered, and so it has told
        exchange.close()
        assert socket.closing
        over = waiting.done()
    assert over or response is not None
    assert sink.size <= len(data)
    assert sink.ends <= 1
    assert sum(map(len, socket.written)) < 64 * 1024 + 64 * len(data)


def _forget_timers(loop: asyncio.AbstractEventLoop) -> None:
    """A loop that runs drops those that were cancelled by itself."""
    assert all(timer.cancelled() for timer in loop._scheduled if timer._callback != Socket.close)  # type: ignore[attr-defined]
    loop._scheduled.clear()  # type: ignore[attr-defined]
    loop._ready.clear()  # type: ignore[attr-defined]


class Http1:
    """The client's side of HTTP/1.1."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, data: bytes, chance: random.Random) -> None:
        connection = Connection(ORIGIN, Keeper(), self._loop, HEAD_BYTES, HOLD_BYTES)  # type: ignore[arg-type]
        _answer(self._loop, connection, data, chance)
        connection.fail(httpx.ReadError("over"))
        _forget_timers(self._loop)


class Http2:
    """The client's side of HTTP/2."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, data: bytes, chance: random.Random) -> None:
        connection = SharedConnection(ORIGIN, Keeper(), self._loop, HEAD_BYTES, HOLD_BYTES, HOLD_BYTES)  # type: ignore[arg-type]
        _answer(self._loop, connection, data, chance)
        assert connection._counted <= CONNECTION_BYTES
        assert len(connection._reader._rest) <= 9 + 16 * 1024
        _forget_timers(self._loop)


def http2_answers() -> list[bytes]:
    """What a server says to the first request on a connection: by h2, which is nobody's code here."""
    found = []
    for status, body, more in (("200", b"data: {}\n\n" * 30, 1), ("404", b"", 0), ("200", b"x" * 2000, 3)):
        server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        server.initiate_connection()
        client = h2.connection.H2Connection()
        client.initiate_connection()
        client.send_headers(1, [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")], end_stream=True)
        server.receive_data(client.data_to_send())
        out = server.data_to_send()
        for _ in range(more):
            server.send_headers(1, [(":status", "103"), ("link", "x")])
        server.send_headers(1, [(":status", status), ("content-type", "text/event-stream")], end_stream=not body)
        out += server.data_to_send()
        for at in range(0, len(body), 100):
            server.send_data(1, body[at : at + 100], end_stream=at + 100 >= len(body), pad_length=5 if at == 100 else None)
        server.ping(b"12345678")
        out += server.data_to_send()
        server.close_connection(last_stream_id=1)
        found += [out, out + server.data_to_send()]
    return found


async def _app(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("never run")


class Incoming:
    """Our server's side of HTTP/1.1, with an application that is never run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._config = Config(_app, log_config=None, lifespan="off", ws="none", access_log=False)
        self._config.load()
        self._protocol = bounded(Protocol, Bounds(Listen(head_bytes=4096)))

    def __call__(self, data: bytes, chance: random.Random) -> None:
        protocol = self._protocol(self._config, ServerState(), {}, self._loop)
        protocol._start_asgi_task = lambda cycle, app: None  # type: ignore[method-assign]
        socket = Socket()
        protocol.connection_made(socket)  # type: ignore[arg-type]
        for part in cuts(chance, data):
            if socket.closing:
                break
            protocol.data_received(part)
        assert sum(map(len, socket.written)) < 2000, "one refusal at the most"
        assert protocol.headers is None or len(protocol.headers) <= 4096
        held = sum(len(cycle.body) for cycle in (protocol.cycle, *(cycle for cycle, _ in protocol.pipeline)) if cycle is not None)
        assert held <= len(data)
        protocol.connection_lost(None)
        assert not protocol.bounds.resting
        _forget_timers(self._loop)
