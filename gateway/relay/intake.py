"""What the bytes of an upstream's answer are: an event stream, compressed or not; something else where a stream was asked for; an error.

Turns body bytes into SSE bytes for the stream's machine. Bounded: what must be gathered whole is at most `limit_bytes`.
"""

from __future__ import annotations

from typing import Final

import httpx

from gateway.dialects.base import Dialect
from gateway.dialects.reported import refused
from gateway.errors import Failure
from gateway.wire import headers
from gateway.wire.coding import CodingError, Decompressor, codings

_STREAM: Final = (b"text/event-stream", b"")  # servers that forget the type send events all the same
_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")  # what only an event stream begins with: no JSON, HTML or sentence does
_PLAIN: Final = (*_FIELDS[:-1], b": ")  # what no compressed body begins with
_BEFORE: Final = b"\xef\xbb\xbf\r\n"
_GZIP: Final = b"\x1f\x8b"


class Intake:
    """`feed` each read, `finish` at the end; both give SSE bytes or the Failure that the answer comes to."""

    __slots__ = ("_begun", "_decompressors", "_dialect", "_gathered", "_limit_bytes", "_media_type", "_status")

    def __init__(self, response: httpx.Response, dialect: Dialect, limit_bytes: int) -> None:
        """CodingError where the answer's coding is not known."""
        fields = response.headers.raw
        applied = codings(headers.first(fields, b"content-encoding"))
        self._decompressors = [Decompressor(coding, limit_bytes) for coding in reversed(applied)]
        self._status = response.status_code
        self._media_type = headers.media_type(fields)
        self._dialect = dialect
        self._limit_bytes = limit_bytes
        self._begun: bytes | None = b""  # what came of a body whose first bytes do not yet tell whether it is compressed
        streams = self._status < 300 and self._media_type in _STREAM
        self._gathered: bytearray | None = None if streams else bytearray()

    @property
    def transparent(self) -> bool:
        """Whether `feed` would only give back what it gets."""
        return not self._decompressors and self._gathered is None and self._begun is None

    def feed(self, data: bytes) -> bytes | Failure:
        if self._begun is not None:
            data = self._settle(self._begun + data)
        try:
            for decompressor in self._decompressors:
                data = decompressor.feed(data)
        except CodingError as error:
            return unreadable(error)
        if self._gathered is None:
            return data
        self._gathered += data
        if self._status < 300 and self._says_events(self._gathered):
            data, self._gathered = bytes(self._gathered), None  # a stream under another name
            return data
        if len(self._gathered) > self._limit_bytes:
            if self._status >= 300:
                return refused(self._status, b"")
            return Failure("upstream_event_too_large", "The upstream's answer is larger than limits.event_bytes; raise it.")
        return b""

    def _settle(self, begun: bytes) -> bytes:
        """Some middle hops decompress and keep the header, others compress and add none: the first bytes say more than the header does."""
        if len(begun) < len(_GZIP) or (self._decompressors and any(field.startswith(begun) for field in _PLAIN)):
            self._begun = begun
            return b""
        self._begun = None
        if not self._decompressors and begun.startswith(_GZIP):
            self._decompressors = [Decompressor(b"gzip", self._limit_bytes)]
        elif self._decompressors and begun.lstrip(_BEFORE).startswith(_PLAIN):
            self._decompressors = []
        return begun

    @staticmethod
    def _says_events(begun: bytes | bytearray) -> bool:
        return bytes(begun[:64]).lstrip(_BEFORE).startswith(_FIELDS)

    def finish(self) -> bytes | Failure:
        if self._begun:
            begun, self._begun = self._begun, None
            fed = self.feed(begun)
            if isinstance(fed, Failure) or self._gathered is None:
                return fed
        if self._gathered is None:
            return b""
        body = bytes(self._gathered)
        if self._status >= 300:
            return refused(self._status, body)
        return self._dialect.as_stream(self._media_type, body)


def unreadable(error: CodingError) -> Failure:
    return Failure("upstream_encoding", f"The upstream's answer cannot be read: {error}.")
