"""A client that notes when bytes reached its socket, and the reading of what it noted.

Noting and reading are apart, so that neither parsing nor drawing delays the clock: `listen` runs on an event loop of its own
thread and only appends; a `Reading` is advanced by whoever looks, in any other thread.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final
from urllib.parse import urlsplit

import httptools
import msgspec

from gateway.pacing.clusters import Meter
from gateway.piece import Kind
from gateway.simulator.encode import Json
from gateway.simulator.text import PARTS, Part
from gateway.wire.sse import Decoder

BIN_S: Final = 0.050  # the window in which a cluster is counted, so a column of the picture is one window
_EVENT_LIMIT_BYTES: Final = 2**20  # of one chunk; a delta of 100 tokens is 1 KiB
_KINDS: Final[Mapping[Part, Kind]] = {
    "reasoning": Kind.REASONING,
    "content": Kind.CONTENT,
    "tool": Kind.TOOL,
    "refusal": Kind.CONTENT,
}


@dataclass(slots=True)
class Recording:
    """What came, and when, on the machine's monotonic clock. Written by one thread, read by others: only appended to."""

    asked: float = 0.0
    arrivals: list[tuple[float, bytes]] = field(default_factory=list)
    closed: float = 0.0  # 0: still open
    failure: str = ""  # how the connection broke, if it did


class _Listener(asyncio.Protocol):
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.done = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._recording.arrivals.append((time.monotonic(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._recording.closed:
            self._recording.failure = "the connection was reset" if exc else ""
            self._recording.closed = time.monotonic()
        self.done.set()


async def listen(url: str, body: bytes, headers: Mapping[str, str], recording: Recording, patience_s: float) -> None:
    """POST and note all that comes until the server closes, at most `patience_s`."""
    to = urlsplit(url)
    fields = {"host": to.netloc, "content-type": "application/json", "accept": "text/event-stream", "connection": "close"}
    fields |= {"content-length": str(len(body)), **headers}
    head = f"POST {to.path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    loop = asyncio.get_running_loop()
    recording.asked = time.monotonic()
    try:
        transport, listener = await loop.create_connection(lambda: _Listener(recording), to.hostname or "", to.port or 80)
    except OSError as error:
        recording.failure = f"no connection: {error.strerror or error}"
        recording.closed = time.monotonic()
        return
    recording.asked = time.monotonic()
    transport.write(head.encode("latin-1") + body)
    try:
        async with asyncio.timeout(patience_s):
            await listener.done.wait()
    except TimeoutError:
        recording.failure = f"nothing more within {patience_s:.0f} s"
        recording.closed = time.monotonic()
    finally:
        transport.abort()


class Ruler:
    """Tokens in the text of a part, by its tokens' true lengths: so a cut or a merged delta counts as what it holds."""

    def __init__(self, tokens: Mapping[Part, Sequence[str]]) -> None:
        self._ends = {part: list(accumulate(map(len, tokens.get(part, ())))) for part in PARTS}
        self._seen = dict.fromkeys(PARTS, 0)  # characters

    def tokens(self, part: Part, characters: int) -> float:
        """How many the next so many characters of a part are."""
        start = self._seen[part]
        self._seen[part] = end = start + characters
        return self._at(part, end) - self._at(part, start)

    def _at(self, part: Part, offset: int) -> float:
        ends = self._ends[part]
        index = bisect_right(ends, offset)
        if index == len(ends):
            return float(index)
        begin = ends[index - 1] if index else 0
        return index + (offset - begin) / (ends[index] - begin)


class Reading:
    """What a recording of a chat stream says: text, figures, ending. `advance` reads what has come since."""

    def __init__(self, recording: Recording, ruler: Ruler) -> None:
        self.recording = recording
        self.status = 0
        self.text: dict[Part, str] = dict.fromkeys(PARTS, "")
        self.pieces: list[tuple[Part, str]] = []  # in order; the same part in a row is one
        self.bins: list[float] = []  # tokens in each 50 ms since the request
        self.meter = Meter(bounds_s=())
        self.finish = ""  # the finish reason
        self.error = ""  # what an error body or event says
        self.complete = False  # the body came to its own end
        self._ruler = ruler
        self._next = 0  # arrival
        self._now = 0.0
        self._http = httptools.HttpResponseParser(self)
        self._events = Decoder(_EVENT_LIMIT_BYTES)
        self._plain = b""  # a body that is no stream

    @property
    def over(self) -> bool:
        return bool(self.recording.closed) and self._next == len(self.recording.arrivals)

    @property
    def whole(self) -> bool:
        return self.complete and bool(self.finish) and not self.error

    def ending(self) -> str:
        """In a few words, how it ended."""
        if self.error:
            return f"HTTP {self.status}: {self.error}" if self.status >= 400 else f"error event: {self.error}"
        if self.whole:
            return f"whole ({self.finish})"
        return self.recording.failure or ("no finish reason" if self.complete else "cut off")

    def advance(self) -> None:
        arrivals = self.recording.arrivals
        while self._next < len(arrivals):
            self._now, data = arrivals[self._next]
            self._next += 1
            try:
                self._http.feed_data(data)
            except httptools.HttpParserError:
                self.error = "no HTTP response"

    # httptools calls these
    def on_headers_complete(self) -> None:
        self.status = self._http.get_status_code()

    def on_body(self, data: bytes) -> None:
        if self.status >= 400:
            self._plain += data
            return
        for event in self._events.feed(data):
            if event.data != b"[DONE]":
                self._read(msgspec.json.decode(event.data))

    def on_message_complete(self) -> None:
        self.complete = True
        if self.status >= 400:
            try:
                self._read(msgspec.json.decode(self._plain))
            except msgspec.DecodeError:
                self.error = "an error that is not JSON"

    def _read(self, event: Json) -> None:
        if error := event.get("error"):
            self.error = _name(error)
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            self._add("reasoning", delta.get("reasoning_content") or delta.get("reasoning"))
            self._add("content", delta.get("content"))
            self._add("refusal", delta.get("refusal"))
            for call in delta.get("tool_calls") or ():
                self._add("tool", (call.get("function") or {}).get("arguments"))
            self.finish = choice.get("finish_reason") or self.finish

    def _add(self, part: Part, text: str | None) -> None:
        if not text:
            return
        self.text[part] += text
        if self.pieces and self.pieces[-1][0] == part:
            self.pieces[-1] = (part, self.pieces[-1][1] + text)
        else:
            self.pieces.append((part, text))
        tokens = self._ruler.tokens(part, len(text))
        self.meter.add(self._now, tokens, _KINDS[part])
        column = int((self._now - self.recording.asked) / BIN_S)
        self.bins += [0.0] * (column + 1 - len(self.bins))
        self.bins[column] += tokens


def _name(error: Any) -> str:
    """An error's code, or its type, or its first words."""
    if not isinstance(error, dict):
        return str(error)[:60]
    return str(error.get("code") or error.get("type") or error.get("message"))[:60]
