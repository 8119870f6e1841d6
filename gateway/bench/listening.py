"""One POST over a connection of its own, and the note of what came when. While the clock runs nothing is parsed but where the message ends:
not every server closes when it is asked to.

The clock starts when the request is written, the connection and its TLS being there already: what is compared is the stream, and SDKs keep
their connections.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httptools

_PORTS: Final = {"http": 80, "https": 443}
RECORDING_BYTES: Final = 64 * 2**20  # of one answer: four times the largest event that the gateway takes
ROOM_BYTES: Final = 256 * 2**20  # of all answers that are on their way at once
TOO_LARGE: Final = "too large"
_ARRIVAL_BYTES: Final = 128  # what the note of one read weighs beside its bytes


@dataclass(slots=True)
class Recording:
    """Times in seconds of the machine's monotonic clock. failure: how the connection broke, in a word for counting; empty if it did not."""

    asked: float = 0.0
    arrivals: list[tuple[float, bytes]] = field(default_factory=list)
    closed: float = 0.0
    failure: str = ""


@dataclass(slots=True)
class Room:
    """What the recordings of a run may weigh together."""

    left_bytes: int = ROOM_BYTES


class _Listener(asyncio.Protocol):
    def __init__(self, recording: Recording, room: Room, done: asyncio.Future[None]) -> None:
        self._recording = recording
        self._room = room
        self._done = done
        self.held_bytes = 0
        self._message: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        if self._recording.failure:
            return
        self._recording.arrivals.append((time.monotonic(), data))
        self._follow(data)
        weight = len(data) + _ARRIVAL_BYTES
        self.held_bytes += weight
        self._room.left_bytes -= weight
        if self.held_bytes > RECORDING_BYTES or self._room.left_bytes < 0:
            self._recording.failure = TOO_LARGE
            self._end()

    def _follow(self, data: bytes) -> None:
        if self._message is not None:
            try:
                self._message.feed_data(data)
            except httptools.HttpParserError:  # which the reading will tell of
                self._message = None

    def on_message_complete(self) -> None:
        if self._message is not None and self._message.get_status_code() >= 200:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._message = None  # which knows this listener: both are freed at once
        if exc is not None and not self._recording.failure:
            self._recording.failure = "reset"
        self._end()

    def _end(self) -> None:
        if not self._done.done():
            self._recording.closed = time.monotonic()
            self._done.set_result(None)


async def listen(
    url: str, body: bytes, fields: Mapping[str, str], trust: ssl.SSLContext | None, patience_s: float, room: Room
) -> Recording:
    """POST and note all that comes until the message or the connection ends, at most `patience_s`. Whatever goes wrong is the recording's
    failure. The caller gives the room back when it lets go of the recording: `weight`."""
    recording = Recording()
    to = urlsplit(url)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    recording.asked = time.monotonic()
    try:
        async with asyncio.timeout(patience_s):
            transport, _ = await loop.create_connection(
                lambda: _Listener(recording, room, done),
                to.hostname or "",
                to.port or _PORTS[to.scheme],
                ssl=trust if to.scheme == "https" else None,
            )
    except (OSError, TimeoutError) as error:
        recording.failure, recording.closed = _named(error), time.monotonic()
        return recording
    try:
        recording.asked = time.monotonic()
        transport.write(_head(to, body, fields) + body)
        async with asyncio.timeout(patience_s):
            await done
    except TimeoutError:
        recording.failure, recording.closed = "timeout", time.monotonic()
    finally:
        transport.abort()
    return recording


def weight(recording: Recording) -> int:
    return sum(len(data) + _ARRIVAL_BYTES for _, data in recording.arrivals)


def _named(error: OSError) -> str:
    """Why there was no connection."""
    if isinstance(error, TimeoutError):
        return "no connection"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "certificate"
    if isinstance(error, ssl.SSLError):
        return "no TLS"
    if isinstance(error, socket.gaierror):
        return "unknown name"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    return "too many files" if error.errno in (errno.EMFILE, errno.ENFILE) else "no connection"


def _head(to: SplitResult, body: bytes, fields: Mapping[str, str]) -> bytes:
    host = to.hostname or ""
    host = f"[{host}]" if ":" in host else host
    own = {
        "host": host if to.port is None else f"{host}:{to.port}",
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "user-agent": "decluster-bench",
        "connection": "close",
        "content-length": str(len(body)),
        **fields,
    }
    target = to.path + (f"?{to.query}" if to.query else "")
    return (f"POST {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in own.items()) + "\r\n").encode("latin-1")
