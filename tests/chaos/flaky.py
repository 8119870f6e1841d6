"""An upstream that fails on demand: in front of the embedded one, whose answers it plays event by event, up to the place where it is to fail.

A request's header `x-chaos: STAGE/KIND/TIMES` says where, how, and how many attempts of that request fail; it is known by `x-chaos-id`.
Answers are fetched once for each request's body and kept, so that the run costs little.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import socket
import struct
from collections import Counter
from typing import Any, Final

STAGES: Final = (
    "connect",
    "before the head",
    "after the head",
    "in the preamble",
    "in an event",
    "between events",
    "before the terminal event",
    "after the terminal event",
)
KINDS: Final = ("reset", "hang", "end", "garbage", "429", "500", "trickle")
# At the connection there is nothing to say yet.
IMPOSSIBLE: Final = {("connect", kind) for kind in ("end", "garbage", "429", "500", "trickle")}
BY_CONNECT: Final = {"reset": "refused", "hang": "deaf"}  # upstream of its own for these
_LINGER_NONE: Final = struct.pack("ii", 1, 0)
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_SAYS: Final = (b'"content":"', b'"text_delta"', b"output_text.delta")
_ENDS: Final = (b'"finish_reason":"', b'"message_delta"', b'"response.output_text.done"')
_TRICKLE_BYTES: Final = 7
ERRORS: Final = {
    "429": b'{"error":{"message":"Slow down.","type":"rate_limit_error","code":"rate_limit_exceeded"}}',
    "500": b'{"error":{"message":"The server had an error.","type":"server_error","code":"server_error"}}',
}


class Flaky:
    """`origin`: the embedded upstream's port. attempts: so far, by request."""

    def __init__(self, origin: int) -> None:
        self._origin = origin
        self._kept: dict[str, list[bytes]] = {}
        self._fetching: dict[str, asyncio.Task[list[bytes]]] = {}
        self.attempts: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, _Broken):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
                body = await reader.readexactly(int(fields.get(b"content-length", b"0")))
                await self._answer(head, fields, body, reader, writer)
        writer.close()

    async def _answer(
        self, head: bytes, fields: dict[bytes, bytes], body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        name = fields.get(b"x-chaos-id", b"").decode()
        self.attempts[name] += 1
        stage, kind, times = fields.get(b"x-chaos", b"none/none/0").decode().split("/")
        events = await self.events(head.split(b" ", 2)[1].decode(), body)
        fails = self.attempts[name] <= int(times)
        place = _place(stage, events) if fails and stage != "connect" else None
        if place is not None and place < 0:
            await _fail(kind, _whole(events), True, reader, writer)
            if kind not in ("429", "500", "trickle"):
                raise _Broken
            return
        writer.write(_HEAD)
        for at, event in enumerate(events):
            if at == place:
                half = event[: len(event) // 2] if stage == "in an event" else b""
                if half:
                    _chunk(writer, half)
                    await writer.drain()
                await _fail(kind, [event[len(half) :], *events[at + 1 :]], False, reader, writer)
                if kind != "trickle":
                    raise _Broken
                break
            _chunk(writer, event)
            if at % 8 == 0:
                await asyncio.sleep(0.002)
        else:
            if place == len(events):
                await _fail(kind, [], False, reader, writer)
                if kind != "trickle":
                    raise _Broken
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def events(self, path: str, body: bytes) -> list[bytes]:
        key = hashlib.sha256(path.encode() + body).hexdigest()
        if key not in self._kept:
            if key not in self._fetching:
                self._fetching[key] = asyncio.get_running_loop().create_task(self._fetch(path, body))
            self._kept[key] = await self._fetching[key]
        return self._kept[key]

    async def _fetch(self, path: str, body: bytes) -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._origin)
        head = f"POST {path} HTTP/1.1\r\nhost: origin\r\nconnection: close\r\ncontent-type: application/json\r\nx-simulate-speed: 1000\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.read()
        writer.close()
        events = [event + b"\n\n" for event in _dechunked(answer).split(b"\n\n") if event]
        if b" 200 " not in answer[:20] or len(events) < 5:
            raise RuntimeError(f"the embedded upstream does not stream this: {answer[:300]!r}")
        return events


class _Broken(Exception):
    """The connection has been dealt with."""


def _place(stage: str, events: list[bytes]) -> int | None:
    """Before which event it fails; -1 before the head, the number of events behind them all."""
    texts = [at for at, event in enumerate(events) if any(sign in event for sign in _SAYS) and b'"content":""' not in event]
    ends = [at for at, event in enumerate(events) if any(sign in event for sign in _ENDS)]
    middle = texts[len(texts) // 2]
    return {
        "before the head": -1,
        "after the head": 0,
        "in the preamble": min(1, texts[0]),
        "in an event": middle,
        "between events": middle,
        "before the terminal event": ends[0],
        "after the terminal event": len(events),
    }.get(stage)


async def _fail(kind: str, rest: list[bytes], no_head: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    transport: Any = writer.transport
    await writer.drain()
    if kind == "hang":
        await reader.read()  # until whoever asked goes
    elif kind == "reset":
        await asyncio.sleep(0.05)  # a reset overtakes what the kernel has not handed over
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
        transport.abort()
    elif kind == "end":
        if not no_head:
            writer.write(b"0\r\n\r\n")
        writer.close()
    elif kind == "garbage":
        noise = os.urandom(200).replace(b"\n", b" ")
        if no_head:
            writer.write(noise + b"\r\n\r\n")
        else:
            _chunk(writer, b"<html>" + noise + b"</html>\n\n")
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()
    elif kind in ERRORS:
        body = ERRORS[kind]
        if no_head:
            writer.write(
                b"HTTP/1.1 %b No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (kind.encode(), len(body), body)
            )
            await writer.drain()
            return
        _chunk(writer, b"data: " + body + b"\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()
    else:  # a few bytes at a time, to the end
        whole = b"".join(rest)
        for at in range(0, len(whole), _TRICKLE_BYTES):
            if writer.is_closing():
                return
            if no_head:
                writer.write(whole[at : at + _TRICKLE_BYTES])
            else:
                _chunk(writer, whole[at : at + _TRICKLE_BYTES])
            if at % (_TRICKLE_BYTES * 16) == 0:
                await writer.drain()
                await asyncio.sleep(0.001)
        await writer.drain()


def _whole(events: list[bytes]) -> list[bytes]:
    body = b"".join(events)
    return [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body), body]


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    if data:
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def _dechunked(answer: bytes) -> bytes:
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"chunked" not in head.lower():
        return body
    out, at = bytearray(), 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end], 16)
        if not size:
            return bytes(out)
        out += body[end + 2 : end + 2 + size]
        at = end + 2 + size + 2


class Deaf:
    """A port whose queue of connections is full, so that one more is never made."""

    def __init__(self) -> None:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self.port = self._listener.getsockname()[1]
        self._fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(("127.0.0.1", self.port))
            self._fillers.append(filler)

    def close(self) -> None:
        for each in (*self._fillers, self._listener):
            each.close()


def drawn(chance: random.Random) -> tuple[str, str, int]:
    """Where, how and how often one request fails: one attempt, or all of them."""
    while True:
        stage, kind = chance.choice(STAGES), chance.choice(KINDS)
        if (stage, kind) not in IMPOSSIBLE:
            return stage, kind, chance.choice((1, 1, 99))
