"""Timings that other tools noted, as traces: what curl prints with --trace-time, and HAR files of browsers.

The text is read here for its tokens and let go of; a trace holds none. Raises TraceError with the remedy where a file holds no timings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import httptools

from gateway.dialects import DIALECTS
from gateway.pacing.optimum import Step
from gateway.piece import Kind
from gateway.traces.format import Trace, TraceError, line_of, loads, shown
from gateway.traces.recorder import bursts
from gateway.wire.sse import Decoder

_EVENT_BYTES: Final = 16 * 2**20
_BYTES_A_TOKEN: Final = 190.0  # of an event with one token in OpenAI's form, where only sizes are known
_DAY_S: Final = 86_400.0
_STAMP: Final = re.compile(r"^(\d\d):(\d\d):(\d\d)\.(\d{1,9}) (?:\[[^]]{1,40}\] )?(.*)$")  # the brackets: --trace-ids
_DUMP: Final = re.compile(r"^[0-9a-f]{4,}: ((?:[0-9a-f]{2} ){1,16})")
_SIZES: Final = re.compile(r"^\{ \[(\d+) bytes data\]")
_REQUEST: Final = re.compile(rb"^(?:POST|GET) (\S+) HTTP/")


@dataclass(slots=True)
class _Noted:
    """What a log says of one request: when it was asked, by what path, and what came when."""

    asked_s: float | None = None
    path: bytes = b""
    head: bytes = b""
    data: list[tuple[float, bytes]] = field(default_factory=list)
    sizes: list[tuple[float, int]] = field(default_factory=list)


def from_curl(text: str, name: str) -> list[Trace]:
    """The streams in the output of `curl -N --trace-time --trace FILE` (exact), or of `curl -N -v --trace-time` (estimated from sizes)."""
    found = [trace for noted in _noted(text) if (trace := _of_noted(noted, name)) is not None]
    if not found:
        raise TraceError(
            f"{name}: holds no stream with times: make it with `curl -N --trace-time --trace FILE ...` (hexadecimal, not --trace-ascii; "
            "without --compressed)"
        )
    if len(found) > 1:
        found = [replace(trace, name=f"{name}-{number}") for number, trace in enumerate(found, 1)]
    return [_checked(trace) for trace in found]


def _of_noted(noted: _Noted, name: str) -> Trace | None:
    for framed in (True, False) if noted.data else ():  # curl shows the chunks' framing or not, by version
        steps = _steps(noted, framed)
        if steps:
            return _trace(name, steps, noted.asked_s if noted.asked_s is not None else steps[0][0], "imported from curl")
    if noted.sizes and not noted.data:
        steps = [(at, size / _BYTES_A_TOKEN, Kind.CONTENT) for at, size in noted.sizes]
        began = noted.asked_s if noted.asked_s is not None else steps[0][0]
        return _trace(name, steps, began, "imported from curl's sizes: tokens are estimated")
    return None


def _checked(trace: Trace) -> Trace:
    """As it would be read from a file: times and amounts within bounds."""
    return loads(line_of(trace), trace.name)[0]


def from_har(text: str, name: str) -> list[Trace]:
    """The event streams of a HAR file that carry a time for each message, as Chromium exports those of EventSource."""
    try:
        entries = json.loads(text)["log"]["entries"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TraceError(f"{name}: is no HAR file") from error
    found = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        try:
            trace = _of_entry(entry, f"{name}-{index}")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise TraceError(f"{name}: entry {index} has messages whose times or data cannot be read") from error
        if trace is not None:
            found.append(_checked(trace))
    if not found:
        raise TraceError(
            f"{name}: no event stream in it has times of its own (browsers write them for EventSource only, not for fetch): "
            "use `curl -N --trace-time --trace FILE ...`"
        )
    return found


def _of_entry(entry: Any, name: str) -> Trace | None:
    messages = entry.get("_eventSourceMessages")
    if not messages:
        return None
    began = _moment(entry["startedDateTime"])
    path = _path(entry["request"]["url"].partition("//")[2].partition("/")[2].encode())
    found: list[Step] = []
    reader = _Reader(path, found)
    for message in messages:
        event = b"event: %s\n" % message["eventName"].encode() if message.get("eventName") not in (None, "", "message") else b""
        lines = b"".join(b"data: %s\n" % line for line in str(message["data"]).encode().split(b"\n"))
        reader.feed(_moment(message["time"]), event + lines + b"\n")
    return _trace(name, found, began, "imported from a HAR file") if found else None


def _moment(value: object) -> float:
    """Seconds since the epoch: from a number of seconds, or an ISO date."""
    if isinstance(value, int | float):
        return float(value)
    return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()


def _noted(text: str) -> list[_Noted]:
    """Of each request."""
    out = [_Noted()]
    encrypted = False
    for at, what, data in _records(text):
        match = _REQUEST.match(data) if what.startswith("=> Send header") else None
        if match or what.startswith("> POST "):
            if out[-1].asked_s is not None:
                out.append(_Noted())
            out[-1].asked_s, out[-1].path = at, match[1] if match else b""
        elif what.startswith("<= Recv header"):
            out[-1].head += data
        elif what.startswith("<= Recv data"):
            out[-1].data.append((at, data))
        elif (sized := _SIZES.match(what)) and out[-1].asked_s is not None and not encrypted:
            out[-1].sizes.append((at, int(sized[1])))
        encrypted = what.startswith("* TLS")  # what follows such a line are its bytes, not the answer's
    return out


def _records(text: str) -> Iterator[tuple[float, str, bytes]]:
    """(seconds of day, going on over midnight; what; the bytes of its dump) of each record."""
    at, what, days, data = 0.0, "", 0, bytearray()
    for line in text.split("\n"):
        line = line.rstrip("\r")
        stamp = _STAMP.match(line)
        if stamp is None:
            dump = _DUMP.match(line + " ")
            if dump is not None:
                data += bytes.fromhex(dump[1])
            continue
        if what:
            yield at, what, bytes(data)
        hours, minutes, seconds, fraction, what = stamp.groups()
        of_day = int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction}")
        if of_day + days * _DAY_S < at - _DAY_S / 2:
            days += 1
        at, data = of_day + days * _DAY_S, bytearray()
    if what:
        yield at, what, bytes(data)


def _steps(noted: _Noted, framed: bool) -> list[Step]:
    found: list[Step] = []
    reader = _Reader(_path(noted.path.partition(b"?")[0]), found)
    if not framed:
        for at, data in noted.data:
            reader.feed(at, data)
        return found
    parser = httptools.HttpResponseParser(reader)
    try:
        parser.feed_data(noted.head)
        for at, data in noted.data:
            reader.now = at
            parser.feed_data(data)
    except httptools.HttpParserError:
        found.clear()
    return found


class _Reader:
    """Bytes of a body to steps. `now`: when the bytes that come next came."""

    def __init__(self, path: bytes, found: list[Step]) -> None:
        self._dialect = DIALECTS.get(path, DIALECTS[b"/chat/completions"])()
        self._events = Decoder(_EVENT_BYTES)
        self._found = found
        self.now = 0.0

    def on_body(self, data: bytes) -> None:
        self.feed(self.now, data)

    def feed(self, at: float, data: bytes) -> None:
        for event in self._events.feed(data):
            for piece in self._dialect.read(event):
                if piece.weight:
                    self._found.append((at, piece.weight, piece.kind))


def _path(raw: bytes) -> bytes:
    """The API's path of a URL's, the longest that it ends with."""
    raw = b"/" + raw.lstrip(b"/")
    return max((path for path in DIALECTS if raw.partition(b"?")[0].endswith(path)), key=len, default=b"")


def _trace(name: str, steps: list[Step], began: float, about: str) -> Trace:
    return Trace(name=shown(name), about=about, bursts=bursts(sorted(steps, key=lambda step: step[0]), began))
