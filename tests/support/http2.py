"""An HTTP/2 upstream on loopback, on h2's server side: it does what a test tells it to, and remembers what it was asked.

Subclasses say what becomes of a request (`respond`). What h2 would not send is written raw (`Link.raw`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    PingAckReceived,
    PingReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from support.upstream import SAFETY_S

Fields = Iterable[tuple[bytes, bytes]]
EVENTS: Fields = ((b"content-type", b"text/event-stream; charset=utf-8"),)


@dataclass(eq=False)
class Call:
    """One stream: the request as it came, and how to answer it. reset: the code with which the client has left."""

    link: Link
    number: int
    fields: list[tuple[bytes, bytes]]
    body: bytearray = field(default_factory=bytearray)
    whole: bool = False
    over: bool = False
    task: asyncio.Task[None] | None = None
    reset: int | None = None
    left_at: float | None = None
    window_waiter: asyncio.Event = field(default_factory=asyncio.Event)

    def named(self, name: bytes) -> bytes | None:
        return dict(self.fields).get(name)

    def head(self, status: int = 200, fields: Fields = EVENTS, end: bool = False) -> None:
        self.link.h2.send_headers(self.number, [(b":status", b"%d" % status), *fields], end_stream=end)
        self.link.flush()

    def now(self, data: bytes, end: bool = False) -> None:
        """One DATA frame, which must fit the windows."""
        self.over = end
        self.link.h2.send_data(self.number, data, end_stream=end)
        self.link.flush()

    @property
    def room(self) -> int:
        return min(self.link.h2.local_flow_control_window(self.number), self.link.h2.max_outbound_frame_size)

    async def data(self, data: bytes, end: bool = False) -> None:
        """As many frames as the windows want, waiting for them."""
        at = 0
        while at < len(data):
            while self.room <= 0:
                self.window_waiter.clear()
                await self.window_waiter.wait()
            size = self.room
            self.link.h2.send_data(self.number, data[at : at + size])
            self.link.flush()
            at += size
            await self.link.flowing.wait()
        if end:
            self.end()

    def end(self, trailers: Fields = ()) -> None:
        self.over = True
        if trailers:
            self.link.h2.send_headers(self.number, trailers, end_stream=True)
        else:
            self.link.h2.end_stream(self.number)
        self.link.flush()

    def cut(self, code: int) -> None:
        self.over = True
        self.link.h2.reset_stream(self.number, code)
        self.link.flush()


class Http2Upstream:
    """Answers each request with `answer`. A path with `untaken` in it has a body of which no more than a window is taken."""

    def __init__(self, answer: bytes = b"ok", *, tls: ssl.SSLContext | None = None, settings: dict[int, int] | None = None) -> None:
        """settings: HTTP/2's, of the server."""
        self.answer = answer
        self.settings = settings or {}
        self.calls: list[Call] = []
        self.links: list[Link] = []
        self.port = 0
        self.host = "127.0.0.1"
        self.tls = tls
        self._changed = asyncio.Event()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/v1/chat/completions"

    @property
    def connections(self) -> int:
        return len(self.links)

    @property
    def open_connections(self) -> int:
        return sum(not link.closed for link in self.links)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Link(self), self.host, 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        tasks = [task for link in self.links for task in link.tasks]
        for link in self.links:
            link.drop()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await self.until(lambda: all(link.closed for link in self.links))
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, ProtocolError):
                raise result

    async def until(self, true: Callable[[], Any]) -> None:
        async with asyncio.timeout(SAFETY_S):
            while not true():
                self._changed.clear()
                await self._changed.wait()

    async def asked(self, count: int = 1) -> Call:
        """Wait for the count-th request, its body too."""
        await self.until(lambda: sum(call.whole for call in self.calls) >= count)
        return [call for call in self.calls if call.whole][count - 1]

    def changed(self) -> None:
        self._changed.set()

    def begun(self, call: Call) -> None:
        """Its head has come."""

    async def respond(self, call: Call) -> None:
        """It has come whole."""
        call.head()
        await call.data(self.answer, end=True)


class Link(asyncio.Protocol):
    """One connection. pings: so many came; acknowledged: so many of ours were answered; gone: the code of the client's GOAWAY; deaf: it answers nothing any more."""

    def __init__(self, upstream: Http2Upstream) -> None:
        self.upstream = upstream
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None, validate_outbound_headers=False))
        self.h2.local_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 10_000  # what a test sets is held to here, as servers do
        self.h2.local_settings.acknowledge()
        self.calls: dict[int, Call] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.pings = 0
        self.acknowledged = 0
        self.updates: list[tuple[int, int]] = []
        self.gone: int | None = None
        self.deaf = False
        self.closed = False
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.upstream.links.append(self)
        self.h2.initiate_connection()
        self.flush()
        for code, value in self.upstream.settings.items():
            self.raw(b"\0\0\x06\x04\0\0\0\0\0" + code.to_bytes(2, "big") + value.to_bytes(4, "big"))
        self.upstream.changed()

    def raw(self, data: bytes) -> None:
        self.transport.write(data)

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data and not self.closed:
            self.transport.write(data)

    def go_away(self, last: int, code: int = 0) -> None:
        """A GOAWAY frame that h2's own state does not notice: streams go on."""
        self.raw(b"\0\0\x08\x07\0\0\0\0\0" + last.to_bytes(4, "big") + code.to_bytes(4, "big"))

    def data_received(self, data: bytes) -> None:
        if self.deaf:
            return
        try:
            for event in self.h2.receive_data(data):
                self._told(event)
        except ProtocolError:
            self.flush()
            self.transport.close()
            raise
        self.flush()
        self.upstream.changed()

    def _told(self, event: Any) -> None:
        call = self.calls.get(getattr(event, "stream_id", 0) or 0)
        if isinstance(event, RequestReceived):
            call = Call(self, event.stream_id, list(event.headers))
            running = sum(not each.over for each in self.calls.values())
            self.calls[call.number] = call
            if running >= self.upstream.settings.get(SettingCodes.MAX_CONCURRENT_STREAMS, 10_000):
                call.over = True
                call.cut(ErrorCodes.REFUSED_STREAM)
                return
            self.upstream.calls.append(call)
            self.upstream.begun(call)
        elif isinstance(event, DataReceived) and call is not None:
            call.body += event.data
            if b"untaken" not in (call.named(b":path") or b""):
                self.h2.acknowledge_received_data(event.flow_controlled_length, call.number)
            elif event.flow_controlled_length:
                with contextlib.suppress(ProtocolError):  # the client has said goodbye in the same read
                    self.h2.increment_flow_control_window(event.flow_controlled_length)  # the connection's only
        elif isinstance(event, StreamEnded) and call is not None and not call.over:
            call.whole = True
            call.task = asyncio.get_running_loop().create_task(self.upstream.respond(call))
            self.tasks.add(call.task)
        elif isinstance(event, StreamReset) and call is not None:
            call.over = True
            if call.task is not None:
                call.task.cancel()
            call.reset = int(event.error_code)
            call.left_at = asyncio.get_running_loop().time()
        elif isinstance(event, WindowUpdated | RemoteSettingsChanged):
            if isinstance(event, WindowUpdated):
                self.updates.append((event.stream_id or 0, event.delta or 0))
            for each in self.calls.values():
                each.window_waiter.set()
        elif isinstance(event, PingReceived):
            self.pings += 1
        elif isinstance(event, PingAckReceived):
            self.acknowledged += 1
        elif isinstance(event, ConnectionTerminated):
            self.gone = int(event.error_code or 0)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.flowing.set()
        for call in self.calls.values():
            if call.left_at is None:
                call.left_at = asyncio.get_running_loop().time()
        for task in self.tasks:
            task.cancel()
        self.upstream.changed()

    def pause_writing(self) -> None:
        self.flowing.clear()

    def resume_writing(self) -> None:
        self.flowing.set()

    def drop(self) -> None:
        for task in self.tasks:
            task.cancel()
        with contextlib.suppress(AttributeError):
            self.transport.abort()
