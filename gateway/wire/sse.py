"""Server-sent events: bytes in, events out, and the few lines that we write ourselves.

Owns framing only; it knows nothing of JSON's meaning or of dialects, does no IO and never raises on what a peer sent.

Invariants: where the bytes are cut does not matter; cost is linear in the bytes, however they are cut; at most `limit_bytes` are
held; what comes out has LF line ends, no comments, no `id`, no `retry` and no empty data.

Lenient where real servers are known to stray, and only where the strict reading would give something that is not JSON: events that
follow each other with no blank line between; JSON on lines of its own with no `data:` before it, or with `error:`, as llama.cpp once
wrote; bytes that are no UTF-8.
Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

import re
from typing import Final

from gateway.wire.jsontext import is_object

BOM: Final = b"\xef\xbb\xbf"
COMMENT_HEARTBEAT: Final = b": keepalive\n\n"
# Once an `id:` was sent, a comment with a blank line makes openai-python dispatch an empty event and fail (openai-python#2722).
COMMENT_HEARTBEAT_AFTER_ID: Final = b": keepalive\n"
_FIELDS: Final = frozenset({b"data", b"event", b"id", b"retry", b""})  # the last: a comment
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")  # half a pair as three bytes: CESU-8, which UTF-8 forbids
_CLOSED: Final = (b"}", b"]", b"}\n", b"]\n")


class Event:
    """One event. `name` is None where none was given; `raw` is the event as it may be sent on: LF line ends, a blank line last."""

    __slots__ = ("data", "name", "raw")

    def __init__(self, name: bytes | None, data: bytes, raw: bytes) -> None:
        self.name = name
        self.data = data
        self.raw = raw

    def __repr__(self) -> str:  # text stays out of logs
        return f"Event({self.name!r}, {len(self.data)} bytes)"


def render(data: bytes, name: bytes | None = None) -> bytes:
    """The bytes of one event; line breaks in `data` become lines of their own."""
    head = b"event: " + name + b"\n" if name else b""
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    return head + b"data: " + data + b"\n\n"


class Decoder:
    """`feed(bytes) -> list[Event]`, and `close()` for what stands unfinished at the end.

    overflowed: an event grew past `limit_bytes`; nothing more comes out.
    progressed: the last feed held something other than comments and blank lines: the upstream is alive and generating.
    hanging: what stands unfinished looks, at a glance, like an event that lacks only its blank line.
    """

    __slots__ = (
        "_buffer",
        "_carriage_return",
        "_comment",
        "_lenient",
        "_limit_bytes",
        "_opening",
        "_read",
        "hanging",
        "overflowed",
        "progressed",
    )

    def __init__(self, limit_bytes: int, lenient: bool = True) -> None:
        """`lenient`: for protocols whose data is JSON; else only what the standard says is done."""
        self._limit_bytes = limit_bytes
        self._lenient = lenient
        self._read = read_block if lenient else read_strictly
        self._buffer = bytearray()
        self._carriage_return = False  # a CR ended the last feed: the LF of a CRLF may follow
        self._comment = False  # the line that the buffer ends with, not yet whole, is one
        self._opening: bytes | None = b""  # what came of a possible byte order mark; None once that is settled
        self.hanging = False
        self.overflowed = False
        self.progressed = False

    def feed(self, data: bytes) -> list[Event]:
        whole = self.whole(data)
        return self.events_in(whole) if whole else []

    def whole(self, data: bytes) -> bytes:
        """The whole events that these bytes complete, LF line ends only, each with its blank line; empty if there is none."""
        if self._opening is not None:
            data = self._without_bom(data)
        if self._carriage_return or b"\r" in data:
            data = self._line_feeds_only(data)
        if not data or self.overflowed:
            self.progressed = False
            return b""
        buffer = self._buffer
        if not buffer and data.endswith(b"\n\n"):  # the common case: whole events in one read
            whole = data
            self.hanging = False
        else:
            scan_from = max(len(buffer) - 1, 0)
            goes_on = bool(buffer) and not buffer.endswith(b"\n")
            buffer += data
            end = buffer.rfind(b"\n\n", scan_from)
            self.hanging = self._lenient and buffer.endswith(_CLOSED)
            if end < 0:
                self.progressed = self._lives(data, goes_on)
                self.overflowed = len(buffer) > self._limit_bytes
                return b""
            whole = bytes(buffer[: end + 2])
            del buffer[: end + 2]
        if self._lenient and not whole.isascii():
            whole = well_formed(whole)
        self.progressed = bool(buffer) and self._lives(bytes(buffer), False)
        return whole

    def events_in(self, whole: bytes) -> list[Event]:
        """The events in what `whole` gave, or in a part of it that ends with an event's end."""
        events: list[Event] = []
        for block in whole.split(b"\n\n"):
            if block:
                self._read(block, events)
        self.progressed |= bool(events)
        return events

    def close(self) -> list[Event]:
        """The event that the end of the body left without its blank line, if there is one. Whether its data is whole is for the
        dialect to say."""
        events: list[Event] = []
        rest = bytes(self._buffer) + (self._opening or b"")
        self._buffer.clear()
        if rest and not self.overflowed:
            self._read(well_formed(rest) if self._lenient else rest, events)
        return events

    def settle(self) -> list[Event]:
        """As `close`, in midstream, when nothing has followed for long: what stands unfinished stays where it is no whole JSON."""
        events: list[Event] = []
        if not self.hanging:
            return events
        read_block(well_formed(bytes(self._buffer)), events)
        if not all(event.data.strip() == b"[DONE]" or is_object(event.data) for event in events):
            return []
        if events:
            self._buffer.clear()
        self.hanging = False
        return events

    def _lives(self, data: bytes, goes_on: bool) -> bool:
        """Whether bytes that end no event hold more than comments. `goes_on`: they go on with the line that the buffer ended with."""
        lives = False
        for line in data.split(b"\n"):
            if not goes_on:
                self._comment = line.startswith(b":")
            goes_on = False
            lives |= bool(line) and not self._comment
        return lives

    def _without_bom(self, data: bytes) -> bytes:
        data = (self._opening or b"") + data
        if len(data) < len(BOM) and BOM.startswith(data):
            self._opening = data
            return b""
        self._opening = None
        return data.removeprefix(BOM)

    def _line_feeds_only(self, data: bytes) -> bytes:
        """A line ends at its CR; the LF of a CRLF is swallowed when it comes, in this read or the next."""
        if not data:
            return data
        if self._carriage_return:
            data = data.removeprefix(b"\n")
        self._carriage_return = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def well_formed(data: bytes) -> bytes:
    """Bytes as UTF-8. Halves of surrogate pairs become the escapes that JSON has for them; anything else is read as every browser reads
    it: a replacement character stands for what is none. Clients that are strict would break off at such a byte."""
    try:
        data.decode()
    except UnicodeDecodeError:
        data = _SURROGATE.sub(lambda found: b"\\u%04x" % _code_unit(*found[0]), data).decode("utf-8", "replace").encode()
    return data


def _code_unit(first: int, second: int, third: int) -> int:
    return (first & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F


def read_block(block: bytes, events: list[Event]) -> None:
    """Append what the lines of a block say. The two shapes that nearly every event has are taken without looking at lines."""
    if block.startswith(b"data: "):
        if b"\n" not in block and len(block) > 6:
            events.append(Event(None, block[6:], block + b"\n\n"))
            return
    elif block.startswith(b"event: "):
        name_end = block.find(b"\n")
        if block.startswith(b"data: ", name_end + 1) and name_end > 0 and block.find(b"\n", name_end + 1) < 0:
            data = block[name_end + 7 :]
            if data and name_end > 7:
                events.append(Event(block[7:name_end], data, block + b"\n\n"))
                return
    read_lines(block, events)


def read_strictly(block: bytes, events: list[Event]) -> None:
    name: bytes | None = None
    lines: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            lines.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ") or None
    if lines and lines != [b""]:
        data = b"\n".join(lines)
        events.append(Event(name, data, render(data, name)))


def read_lines(block: bytes, events: list[Event]) -> None:
    name: bytes | None = None
    lines: list[bytes] = []
    hopeful = True  # the data so far may be an object to which the next line cannot belong: then a blank line is missing
    closer = b""  # what ends the JSON that we are in, if it goes on over lines of its own with no `data:` before them
    for line in block.split(b"\n"):
        field, colon, value = line.partition(b":")
        value = value.removeprefix(b" ")
        begins = _begins_json(value if field == b"data" else line)
        goes_on = bool(closer) and field not in _FIELDS
        if field == b"event" and colon:
            follows = bool(lines)
        elif field == b"data" or (field == b"error" and value.lstrip()[:1] == b"{"):
            follows = _begins_another(lines, value)
        elif begins or goes_on:  # JSON that lost its `data:`
            field, value = b"data", line.strip()
            follows = _begins_another(lines, value)
        else:
            continue
        if begins:
            closer = b"]" if value.lstrip().startswith(b"[") else b"}"
            closer = b"" if value.rstrip().endswith(closer) else closer
        elif not goes_on or line.startswith(closer):
            closer = b""
        if follows and hopeful:
            hopeful = is_object(b"\n".join(lines))  # if it is none here, it is none: looked at once, or the cost were the square
            if hopeful:
                _dispatch(name, lines, events)
                name, lines = None, []
        if field == b"event":
            name = value or None
        else:
            lines.append(value)
            name = name or (field if field == b"error" else None)
    _dispatch(name, lines, events)


def _begins_json(line: bytes) -> bool:
    """An object, or a list of objects; a word in brackets is none."""
    line = line.strip()
    return line[:1] == b"{" or (line[:1] == b"[" and line[1:].lstrip()[:1] in (b"", b"{"))


def _begins_another(lines: list[bytes], following: bytes) -> bool:
    """Whether the following line cannot belong to an object that the lines so far are."""
    return bool(lines) and following.lstrip()[:1] in (b"{", b"[") and lines[-1].rstrip().endswith(b"}")


def _dispatch(name: bytes | None, lines: list[bytes], events: list[Event]) -> None:
    data = b"\n".join(lines).removeprefix(b"\n") if any(lines) else b""
    if data:
        events.append(Event(name, data, render(data, name)))
