"""Upstreams on loopback, each named after the trouble that it makes. They serve raw bytes, so that a test says what is on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from dataclasses import dataclass
from types import TracebackType
from typing import Self

SAFETY_S = 10.0  # around awaits that a bug could make endless; never a measure of speed

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass
class Received:
    """A request as it came: head with its line ends, body de-chunked."""

    head: bytes
    body: bytes

    @property
    def headers(self) -> list[bytes]:
        return self.head.split(b"\r\n")[1:-2]


class Server:
    """Answers each request with the same bytes and keeps the connection."""

    def __init__(self, answer: bytes = OK, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.host = host
        self.tls = tls
        self.port = 0
        self.connections = 0
        self.requests: list[Received] = []
        self.asked = asyncio.Event()  # a request has come
        self.left = asyncio.Event()  # a client has closed its connection
        self._handlers: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/v1/chat/completions"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, self.host, 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def until_left(self) -> None:
        await asyncio.wait_for(self.left.wait(), SAFETY_S)

    async def until_asked(self) -> None:
        await asyncio.wait_for(self.asked.wait(), SAFETY_S)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
                await self.serve(reader, writer)
        finally:
            self.left.set()
            self._handlers.discard(task)
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await self.receive(reader)
            await self.respond(reader, writer)

    async def receive(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        body = await reader.readexactly(int(fields.get(b"content-length", 0)))
        if fields.get(b"transfer-encoding") == b"chunked":
            while size := int(await reader.readuntil(b"\r\n"), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        self.requests.append(Received(head, body))
        self.asked.set()

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.answer)
        await writer.drain()


class ByteByByte(Server):
    """Sends its answer in as many segments as it has bytes."""

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for at in range(len(self.answer)):
            writer.write(self.answer[at : at + 1])
            await asyncio.sleep(0)


class InPieces(Server):
    """Sends its answer in pieces, each when the test says so."""

    def __init__(self, *pieces: bytes, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=tls)
        self.pieces = pieces
        self.go: asyncio.Semaphore = asyncio.Semaphore(0)

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in self.pieces:
            await self.go.acquire()
            writer.write(piece)
            await writer.drain()


class StallingServer(Server):
    """Takes the request and never answers."""

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client leaves


class StallingBody(Server):
    """Begins its answer and never goes on."""

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super().respond(reader, writer)
        await reader.read()


class CutsShort(Server):
    """Closes in good order after what it was given to say."""

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super().respond(reader, writer)
        writer.close()
        await reader.read()
        raise ConnectionError


class VanishesUnderTLS(Server):
    """Ends TCP after what it was given to say, without TLS's close_notify."""

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super().respond(reader, writer)
        for _ in range(5):
            await asyncio.sleep(0)  # uvloop writes at the end of a turn
        writer.transport.abort()
        raise ConnectionError


class ResetMidChunk(Server):
    """Resets the connection after what it was given to say, once the test says so."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(answer)
        self.reset = asyncio.Event()

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super().respond(reader, writer)
        await asyncio.wait_for(self.reset.wait(), SAFETY_S)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        writer.transport.abort()
        raise ConnectionError


class StaleKeepAlive(Server):
    """Promises to keep connections, and closes each at its second request without a word."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.receive(reader)
        await self.respond(reader, writer)
        await reader.readuntil(b"\r\n\r\n")


class AlwaysHangsUp(Server):
    """Closes at each request without a word."""

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise ConnectionError


class ClosesWhileIdle(Server):
    """Closes the kept connection when the test says so."""

    def __init__(self, last_words: bytes = b"") -> None:
        super().__init__()
        self.last_words = last_words
        self.go = asyncio.Event()

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super().respond(reader, writer)
        await self.go.wait()
        self.go.clear()
        if not self.last_words:
            raise ConnectionError
        writer.write(self.last_words)


class RefusesEarly(Server):
    """Answers as soon as it has the head, and reads nothing of the body."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await self.respond(reader, writer)
        await asyncio.Event().wait()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader._limit = 1024  # type: ignore[attr-defined]  # so that the socket's own buffers fill soon
        await super()._connected(reader, writer)


class NeverReads(Server):
    """Takes a connection and reads nothing from it."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()


class Swallows(Server):
    """Reads a large body without keeping it, slowly enough that the sender must wait, then answers."""

    def __init__(self, answer: bytes = OK, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(answer, tls=tls)
        self.swallowed_bytes = 0

    async def receive(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(Received(head, b""))
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        length = fields.get(b"content-length")
        if length is not None:
            while self.swallowed_bytes < int(length):
                self.swallowed_bytes += len(await reader.read(65536))
            return
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(size + 2)
            self.swallowed_bytes += size
        await reader.readexactly(2)
