"""An upstream on loopback that plays a script, and remembers what it was asked and when it was left.

Requests are read by h11, which is nobody's code here, so that a request that is not valid HTTP fails the test. Answers are written as raw
bytes, so that a script can say what no library would.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import h11

from support.plays import Play

SAFETY_S: Final = 20.0  # around awaits that a bug could make endless; never a measure of speed


@dataclass
class Attempt:
    """One request as it came, and how its answer went.

    wrote_at: loop time of each write. left_at: that at which the client closed while the answer was being played, None if it did not.
    finished: played to its end.
    """

    method: str
    target: str
    fields: list[tuple[bytes, bytes]]
    at: float
    body: bytearray = field(default_factory=bytearray)
    body_parts: int = 0
    whole: bool = False
    wrote_at: list[float] = field(default_factory=list)
    left_at: float | None = None
    finished: bool = False

    def named(self, name: bytes) -> list[bytes]:
        return [value for field_name, value in self.fields if field_name.lower() == name]

    @property
    def names(self) -> list[bytes]:
        return [name.lower() for name, _ in self.fields]


class ScriptedUpstream:
    """Attempt n is answered by play n, later ones by the last play."""

    def __init__(self, *plays: Play, host: str = "127.0.0.1", reads: bool = True, tls: ssl.SSLContext | None = None) -> None:
        """reads: False takes no request body until `reading` is set."""
        self.plays: Sequence[Play] = plays
        self.attempts: list[Attempt] = []
        self.connections = 0
        self.open_connections = 0
        self.port = 0
        self.blocked = False  # its socket takes no more: back-pressure has reached it
        self.reading = asyncio.Event()
        if reads:
            self.reading.set()
        self._host = host
        self._tls = tls
        self._changed = asyncio.Event()
        self._go = asyncio.Semaphore(0)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Link(self), self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()
        tasks = [link.task for link in self._links if link.task is not None]
        for link in tuple(self._links):
            link.drop()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._links:
            await self._next_change()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}/v1"

    def go(self, times: int = 1) -> None:
        """Let so many gated writes leave."""
        for _ in range(times):
            self._go.release()

    async def asked(self, count: int = 1) -> Attempt:
        """Wait for the head of the count-th request."""
        await self.until(lambda: len(self.attempts) >= count)
        return self.attempts[count - 1]

    async def left(self, attempt: Attempt) -> float:
        """Wait until the client left this attempt; loop time."""
        await self.until(lambda: attempt.left_at is not None)
        assert attempt.left_at is not None
        return attempt.left_at

    async def until(self, true: Any) -> None:
        async with asyncio.timeout(SAFETY_S):
            while not true():
                await self._next_change()

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def changed(self) -> None:
        self._changed.set()

    async def permission(self) -> None:
        await self._go.acquire()


class _Link(asyncio.Protocol):
    """One connection: requests one after the other, each answered by a task."""

    def __init__(self, upstream: ScriptedUpstream) -> None:
        self.upstream = upstream
        self.task: asyncio.Task[None] | None = None
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=2**20)
        self._attempt: Attempt | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        if self.upstream._tls is None:
            self._transport.set_write_buffer_limits(0)  # flowing means: the socket took everything
        self.upstream.connections += 1
        self.upstream.open_connections += 1
        self.upstream._links.add(self)
        if not self.upstream.reading.is_set():
            asyncio.get_running_loop().call_soon(self._transport.pause_reading)  # uvloop begins to read after this call
            self.task = asyncio.get_running_loop().create_task(self._read_later())
        self.upstream.changed()

    async def _read_later(self) -> None:
        await self.upstream.reading.wait()
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._events()

    def _events(self) -> None:
        upstream = self.upstream
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                fields = [(bytes(name), bytes(value)) for name, value in event.headers.raw_items()]
                now = asyncio.get_running_loop().time()
                self._attempt = Attempt(event.method.decode(), event.target.decode("latin-1"), fields, now)
                upstream.attempts.append(self._attempt)
            elif isinstance(event, h11.Data) and self._attempt is not None:
                self._attempt.body += event.data
                self._attempt.body_parts += 1
            elif isinstance(event, h11.EndOfMessage) and self._attempt is not None:
                self._attempt.whole = True
                play = upstream.plays[min(len(upstream.attempts), len(upstream.plays)) - 1]
                self.task = asyncio.get_running_loop().create_task(self._play(play, self._attempt))
            else:
                break
        upstream.changed()

    def eof_received(self) -> bool:
        self._transport.close()  # a client that half-closes has gone, as far as we are concerned
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.upstream.open_connections -= 1
        self.upstream._links.discard(self)
        if self._attempt is not None and not self._attempt.finished:
            self._attempt.left_at = asyncio.get_running_loop().time()
        self._flowing.set()
        if self.task is not None:
            self.task.cancel()
        self.upstream.changed()

    def pause_writing(self) -> None:
        self._flowing.clear()
        self.upstream.blocked = True
        self.upstream.changed()

    def resume_writing(self) -> None:
        self._flowing.set()
        self.upstream.blocked = False

    def drop(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self._transport.abort()

    async def _play(self, play: Play, attempt: Attempt) -> None:
        if play.header_delay_s is None:
            await asyncio.Event().wait()
        await asyncio.sleep(play.header_delay_s or 0.0)
        if play.before_status:
            attempt.finished = True
            self._transport.close()
            return
        fields, framing = list(play.fields), play.framing
        names = {name.lower() for name, _ in fields}
        if b"content-length" in names:
            framing = "length"
        elif framing == "length":
            fields.append((b"content-length", b"%d" % len(play.body)))
        if framing == "chunked" and b"transfer-encoding" not in names:
            fields.append((b"transfer-encoding", b"chunked"))
        if framing == "eof":
            fields.append((b"connection", b"close"))
        head = b"".join(b"%s: %s\r\n" % pair for pair in fields)
        self._transport.write(b"HTTP/1.1 %d Played\r\n%b\r\n" % (play.status, head))
        for write in play.writes:
            await self._flowing.wait()
            if write.gated:
                await self.upstream.permission()
            if write.after_s:
                await asyncio.sleep(write.after_s)
            attempt.wrote_at.append(asyncio.get_running_loop().time())
            self.upstream.changed()
            if write.data and attempt.method != "HEAD":
                self._transport.write(b"%x\r\n%b\r\n" % (len(write.data), write.data) if framing == "chunked" else write.data)
        await self._flowing.wait()
        await self._end(play.end, framing, attempt)

    async def _end(self, end: str, framing: str, attempt: Attempt) -> None:
        if end == "hang":
            await asyncio.Event().wait()
        if end == "reset":
            attempt.finished = True
            # No lingering: closing sends a reset.
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
            return
        attempt.finished = True
        if framing == "chunked" and attempt.method != "HEAD":
            self._transport.write(b"0\r\n\r\n")
        self.upstream.changed()
        if framing == "eof":
            self._transport.close()
            return
        rest = self._http.trailing_data[0]
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=2**20)
        self._attempt, self.task = None, None
        if rest:
            self._http.receive_data(rest)
            self._events()


@contextlib.asynccontextmanager
async def nobody() -> Any:
    """A port where nobody listens."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    yield f"http://127.0.0.1:{port}/v1"
