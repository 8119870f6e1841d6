"""A client on a raw socket that notes every write of the server as it arrives.

Answers are read by h11, which is nobody's code here; one chunk of the chunked coding is one write of the gateway.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Self

import h11

from support import sse
from support.upstream import SAFETY_S

Headers = Iterable[tuple[str, str]]
CHAT: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Frame:
    """One write of the server. at: loop time at which its last byte came. read: number of the read that brought it."""

    at: float
    data: bytes
    read: int


@dataclass
class Answer:
    """One response so far. whole: it ended as HTTP says it must. over: nothing more comes."""

    asked_at: float
    status: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    interim: list[int] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    head_at: float = 0.0
    ended_at: float = 0.0
    whole: bool = False
    over: bool = False

    def header(self, name: str) -> str | None:
        values = [value for key, value in self.fields if key == name]
        assert len(values) < 2, f"{name} stands there twice"
        return values[0] if values else None

    @property
    def body(self) -> bytes:
        return b"".join(frame.data for frame in self.frames)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[sse.Event]:
        return sse.read(self.body)[0]

    @property
    def comments(self) -> list[sse.Comment]:
        return sse.read(self.body)[1]

    def time_of(self, offset: int) -> float:
        """When the byte before this place of the body came."""
        seen = 0
        for frame in self.frames:
            seen += len(frame.data)
            if seen >= offset:
                return frame.at
        raise IndexError(offset)


class Client(asyncio.Protocol):
    """One connection. `await Client.to(port)`; `ask(...)`, then `until` or `ended`."""

    def __init__(self) -> None:
        self.answer = Answer(0.0)
        self.closed = False
        self.received_bytes = 0
        self._reads = 0
        self._loop = asyncio.get_running_loop()
        self._http: h11.Connection | None = None
        self._part = bytearray()
        self._changed = asyncio.Event()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._transport: Any = None

    @classmethod
    async def to(cls, port: int) -> Self:
        """With the kernel's own buffers, also for a client that is to be slow: it only stops reading.

        A receive buffer of a few KiB makes Linux's window fall below half of its largest, by chance: then the sender's kernel waits for its
        persist timer, 0.2 s for each 2 KiB, whatever the gateway does.
        """
        _, client = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    def expect(self, method: str = "POST") -> Answer:
        """What comes next is the answer to a request of this method; its bytes are the caller's to `write`."""
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=2**20)
        request = h11.Request(method=method, target="/", headers=[("host", "gateway")])
        self._http.send(request)
        self._http.send(h11.EndOfMessage())
        self.answer = Answer(self._loop.time())
        return self.answer

    def ask(
        self, method: str = "POST", target: str = CHAT, body: bytes | None = None, headers: Headers = (), version: str = "1.1"
    ) -> Answer:
        """Send a request in one write. A content-length is added unless `headers` frame the body."""
        answer = self.expect(method)
        self.write(head(method, target, headers, None if body is None else len(body), version) + (body or b""))
        return answer

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def drained(self) -> None:
        await self._flowing.wait()

    @property
    def unsent_bytes(self) -> int:
        return int(self._transport.get_write_buffer_size())

    def stop_reading(self) -> None:
        self._transport.pause_reading()

    def read_on(self) -> None:
        self._transport.resume_reading()

    def leave(self, *, abruptly: bool = False) -> None:
        if abruptly:
            self._transport.abort()
        else:
            self._transport.close()

    def half_close(self) -> None:
        """Sends nothing more, and reads on."""
        self._transport.write_eof()

    async def until(self, true: Callable[[Answer], Any]) -> Answer:
        async with asyncio.timeout(SAFETY_S):
            while not true(self.answer):
                assert not self.answer.over, "the answer ended before what was waited for"
                self._changed.clear()
                await self._changed.wait()
        return self.answer

    async def body_of(self, size: int) -> bytes:
        """The first so many bytes of the body; fewer where it ends before."""
        async with asyncio.timeout(SAFETY_S):
            while not self.answer.over and len(self.answer.body) < size:
                self._changed.clear()
                await self._changed.wait()
        return self.answer.body[:size]

    async def ended(self) -> Answer:
        async with asyncio.timeout(SAFETY_S):
            while not self.answer.over:
                self._changed.clear()
                await self._changed.wait()
        return self.answer

    # The protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self._reads += 1
        self._read(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if not self.answer.over:
            self._read(b"")
            self._over(self.answer.whole)
        self._changed.set()

    def pause_writing(self) -> None:
        self._flowing.clear()

    def resume_writing(self) -> None:
        self._flowing.set()

    def _read(self, data: bytes) -> None:
        http, answer = self._http, self.answer
        if http is None or answer.over:
            return
        try:
            http.receive_data(data)
            while (event := http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                self._event(event)
                if answer.over:
                    break
        except h11.RemoteProtocolError:
            self._over(False)
        self._changed.set()

    def _event(self, event: Any) -> None:
        answer = self.answer
        if isinstance(event, h11.InformationalResponse):
            answer.interim.append(event.status_code)
        elif isinstance(event, h11.Response):
            answer.status, answer.head_at = event.status_code, self._loop.time()
            answer.fields = [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in event.headers]
        elif isinstance(event, h11.Data):
            self._part += event.data
            if event.chunk_end or self.answer.header("transfer-encoding") is None:
                answer.frames.append(Frame(self._loop.time(), bytes(self._part), self._reads))
                self._part.clear()
        elif isinstance(event, h11.EndOfMessage):
            self._over(True)
        elif isinstance(event, h11.ConnectionClosed):
            self._over(answer.whole)

    def _over(self, whole: bool) -> None:
        self.answer.whole, self.answer.over, self.answer.ended_at = whole, True, self._loop.time()
        self._changed.set()


def head(method: str, target: str, headers: Headers = (), length: int | None = None, version: str = "1.1") -> bytes:
    fields = [*headers]
    names = {name.lower() for name, _ in fields}
    if "host" not in names:
        fields.insert(0, ("host", "gateway.test"))
    if length is not None and not names & {"content-length", "transfer-encoding"}:
        fields.append(("content-length", str(length)))
    lines = [f"{method} {target} HTTP/{version}", *(f"{name}: {value}" for name, value in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chat_body(stream: bool = True, **more: Any) -> bytes:
    return json.dumps({"model": "m-test", "stream": stream, "messages": [{"role": "user", "content": "hi"}], **more}).encode()


async def ask(port: int, method: str = "POST", target: str = CHAT, body: bytes | None = None, headers: Headers = ()) -> Answer:
    """One request on a connection of its own, to its end."""
    async with await Client.to(port) as client:
        client.ask(method, target, body, headers)
        return await client.ended()


async def stream(port: int, headers: Headers = (), **more: Any) -> Answer:
    """A chat completion, streamed to its end."""
    fields = [("content-type", "application/json"), ("authorization", "Bearer test-key"), *headers]
    return await ask(port, body=chat_body(**more), headers=fields)
