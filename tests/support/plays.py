"""What an upstream plays: its answer as data, write by write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Fields = tuple[tuple[bytes, bytes], ...]

SSE: Final[Fields] = ((b"content-type", b"text/event-stream; charset=utf-8"),)
JSON: Final[Fields] = ((b"content-type", b"application/json"),)


@dataclass(frozen=True, slots=True)
class Write:
    """after_s: pause before it. gated: it waits until the test calls `go` (once for each gated write)."""

    data: bytes
    after_s: float = 0.0
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Play:
    """One answer.

    end: close (properly), reset (the connection is aborted), hang (nothing more, the socket stays open).
    framing: chunked; length (a content-length over all writes, unless `fields` gives one); eof (the connection's end); none (no body).
    header_delay_s: None: the head never comes. before_status: the connection ends before the status line.
    """

    writes: tuple[Write, ...] = ()
    status: int = 200
    fields: Fields = SSE
    end: Literal["close", "reset", "hang"] = "close"
    framing: Literal["chunked", "length", "eof", "none"] = "chunked"
    header_delay_s: float | None = 0.0
    before_status: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(write.data for write in self.writes)


def events(*datas: bytes | str, end: Literal["close", "reset", "hang"] = "close", fields: Fields = SSE) -> Play:
    """All events in one write."""
    return Play((Write(sse(datas)),), end=end, fields=fields)


def sse(datas: Iterable[bytes | str]) -> bytes:
    """Events with these data, as a server writes them."""
    return b"".join(b"data: " + (data.encode() if isinstance(data, str) else data) + b"\n\n" for data in datas)


def json(body: bytes, status: int = 200, *more: tuple[bytes, bytes]) -> Play:
    return Play((Write(body),), status, (*JSON, *more), framing="length")


def gated(*writes: bytes, end: Literal["close", "reset", "hang"] = "close", fields: Fields = SSE) -> Play:
    """Each write waits for the test's `go`."""
    return Play(tuple(Write(data, gated=True) for data in writes), end=end, fields=fields)
