"""Server-sent events as the specification reads them, to the letter: what a strict client makes of the gateway's bytes.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """name: empty where none was given. start, end: where its block stands in the stream, the blank line included."""

    name: str
    data: str
    start: int
    end: int
    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    text: str
    end: int


def read(stream: bytes) -> tuple[list[Event], list[Comment], bytes]:
    """Events, comments, and what stands after the last blank line, which a client discards."""
    events: list[Event] = []
    comments: list[Comment] = []
    name, data, lines = "", [], []
    start = position = len(b"\xef\xbb\xbf") if stream.startswith(b"\xef\xbb\xbf") else 0
    for found in re.finditer(rb"([^\r\n]*)(\r\n|\r|\n)", stream[position:]):
        line = found[1]
        end = position + found.end()
        if not line:
            if data:
                events.append(Event(name, "\n".join(data), start, end, tuple(lines)))
            name, data, lines, start = "", [], [], end
            continue
        lines.append(line)
        if line.startswith(b":"):
            comments.append(Comment(line[1:].decode(), end))
            continue
        field, _, value = line.decode().partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return events, comments, stream[start:]
