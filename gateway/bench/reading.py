"""A recording read: what the stream said, when, and whether it was whole; by the dialects that the gateway itself reads with.

Tokens: the upstream's own count (`usage`) spread over the text by its length, where it sent one; else the gateway's estimate (about four
UTF-8 bytes of Latin text, one CJK character). `Sample.counted` says which.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import httptools

from gateway.bench.listening import RECORDING_BYTES, TOO_LARGE, Recording
from gateway.dialects import DIALECTS, Dialect
from gateway.pacing.clusters import Meter
from gateway.piece import Kind
from gateway.wire.sse import Decoder

ERROR_BYTES: Final = 64 * 1024  # of an error's body, to name it by

Step = tuple[float, float, Kind]  # seconds since the request, tokens, kind


@dataclass(frozen=True, slots=True)
class Sample:
    """One request's figures. Seconds since the request was written; None where it did not come to that.

    outcome: "whole", or in a word what went wrong. rate: tokens a second from the first to the last. gaps_s: between arrivals with text.
    curve: the arrivals themselves.
    """

    outcome: str
    total_s: float
    first_s: float | None = None
    tokens: float = 0.0
    counted: bool = False
    clusters: int = 0
    peak_tokens: float = 0.0
    longest_gap_s: float = 0.0
    rate: float | None = None
    gaps_s: array[float] = field(default_factory=lambda: array("d"))
    curve: list[Step] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return self.outcome == "whole"


def read(recording: Recording, path: bytes) -> Sample:
    """`path`: the API's, below /v1; one of DIALECTS."""
    if recording.failure == TOO_LARGE:  # to read it would take longer than it took to come
        return Sample(TOO_LARGE, recording.closed - recording.asked)
    reader = _Reader(DIALECTS[path]())
    for at, data in recording.arrivals:
        reader.feed(at - recording.asked, data)
    outcome = reader.outcome(recording.failure)
    return _sample(reader, outcome, recording.closed - recording.asked)


def _sample(reader: _Reader, outcome: str, total_s: float) -> Sample:
    steps = reader.steps
    usage = reader.dialect.usage
    estimated = sum(tokens for _, tokens, _ in steps)
    counted = usage.output_tokens if usage is not None else None
    scale = counted / estimated if counted and estimated else 1.0
    curve: list[Step] = [(at, tokens * scale, kind) for at, tokens, kind in steps]
    meter = Meter(bounds_s=())
    for at, tokens, kind in curve:
        meter.add(at, tokens, kind)
    times = sorted({at for at, _, _ in curve})
    flowing_s = times[-1] - times[0] if times else 0.0
    return Sample(
        outcome,
        total_s,
        first_s=meter.first_at,
        tokens=meter.tokens,
        counted=bool(counted),
        clusters=sum(meter.clusters),
        peak_tokens=meter.peak_tokens,
        longest_gap_s=meter.longest_gap_s,
        rate=meter.tokens / flowing_s if flowing_s else None,
        gaps_s=array("d", [later - at for at, later in pairwise(times)]),
        curve=curve,
    )


class _Reader:
    """HTTP, events and dialect of one answer. `steps`: (seconds, estimated tokens, kind) of what held text."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.steps: list[Step] = []
        self._now = 0.0
        self._http = httptools.HttpResponseParser(self)
        self._events = Decoder(RECORDING_BYTES)
        self._status = 0
        self._type = b""
        self._framed = False  # else the connection's end is the message's
        self._message_whole = False
        self._broken = ""

    def feed(self, at: float, data: bytes) -> None:
        self._now = at
        if self._broken:
            return
        try:
            self._http.feed_data(data)
        except httptools.HttpParserError:
            self._broken = "no HTTP"

    def outcome(self, failure: str) -> str:
        dialect = self.dialect
        if self._status >= 300:
            return f"HTTP {self._status}"
        if dialect.failure is not None:
            return "error event"
        if failure or self._broken:
            return failure or self._broken
        if self._framed and not self._message_whole:
            return "cut off"
        if not (self.steps or self._type.lower().startswith(b"text/event-stream")):
            return "no stream"  # a login page, or a whole answer from a server that streams none
        return "whole" if dialect.ended or dialect.proven else "no end"

    # httptools calls these

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self._type = value
        self._framed = self._framed or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self._status = self._http.get_status_code()

    def on_body(self, data: bytes) -> None:
        if self._status >= 300:
            return
        for event in self._events.feed(data):
            for piece in self.dialect.read(event):
                if piece.weight > 0.0:
                    self.steps.append((self._now, piece.weight, piece.kind))

    def on_message_complete(self) -> None:
        if self._status < 200:  # 1xx
            return
        self._message_whole = True
        for event in self._events.close():
            self.dialect.read_last(event)
