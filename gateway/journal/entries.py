"""A frame of a resumable stream, taken apart into events that carry their numbers; and an event read back.

Owns the form of an entry: `id: <number>` first, then the event as it was. Comments travel with the event that follows them, in its block:
once an id was sent, a comment with a blank line of its own makes openai-python dispatch an empty event and fail (openai-python#2722).
"""

from __future__ import annotations

import re
from typing import Final

from gateway.wire.sse import Event, read_strictly

_SEQUENCE: Final = re.compile(rb'"sequence_number"\s*:\s*(\d+)')


def numbered(frame: bytes, first: int, comments: bytes) -> tuple[list[bytes], bytes]:
    """The frame's events, numbered from `first`, and comments that still wait for an event. `comments`: those that waited so far."""
    entries: list[bytes] = []
    for block in frame.split(b"\n\n"):
        if not block:
            continue
        if block.startswith(b":") and b"\ndata:" not in block:
            comments += block + b"\n"
            continue
        entries.append(b"%bid: %d\n%b\n\n" % (comments, first + len(entries), block))
        comments = b""
    return entries, comments


def event_of(entry: bytes) -> Event:
    """The event in an entry, without its number and comments."""
    events: list[Event] = []
    read_strictly(entry.removesuffix(b"\n\n"), events)
    return events[0]


def with_number(event: bytes, number: int) -> bytes:
    """An event's bytes as the entry of that number."""
    return b"id: %d\n%b" % (number, event)


def sequence_of(entry: bytes) -> int | None:
    """The `sequence_number` of a Responses event; None where it has none. In a string the key's quotes are escaped."""
    found = _SEQUENCE.search(entry)
    return None if found is None else int(found[1])
