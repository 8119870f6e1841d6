"""Header fields: which ones end at this hop, and what a stream's response must say. Works on raw (name, value) bytes.

Source: RFC 9110, section 7.6.1 (connection-specific fields).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

Fields = list[tuple[bytes, bytes]]

HOP_BY_HOP: Final = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
        b"trailers", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
# Ours to set towards the upstream.
_REWRITTEN: Final = frozenset({b"host", b"content-length", b"expect", b"accept-encoding"})
# Stale once a stream is re-framed: they describe the upstream's bytes.
_OF_THE_BYTES: Final = frozenset({b"content-length", b"content-encoding", b"content-type", b"etag", b"content-md5", b"digest"})

_OF_A_FAILURE: Final = frozenset({b"x-request-id", b"request-id", b"retry-after", b"retry-after-ms", b"x-should-retry"})
_LIMITS: Final = (b"x-ratelimit-", b"anthropic-ratelimit-")

# Buffering and transforming on the way is what a stream must be spared: nginx reads x-accel-buffering, the others no-transform.
STREAM_FIELDS: Final[Fields] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


def listed_in_connection(fields: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Names that the Connection field declares to end at this hop."""
    return frozenset(name.strip().lower() for field, value in fields if field.lower() == b"connection" for name in value.split(b","))


def end_to_end(fields: Sequence[tuple[bytes, bytes]], but_not: frozenset[bytes] = frozenset()) -> Fields:
    """The fields that travel on, in order, names as they came."""
    dropped = HOP_BY_HOP | but_not | listed_in_connection(fields)
    return [(name, value) for name, value in fields if name.lower() not in dropped]


def to_upstream(fields: Sequence[tuple[bytes, bytes]], but_not: frozenset[bytes] = frozenset()) -> Fields:
    """A client's fields as an upstream gets them; host, length and accept-encoding are set anew by the caller."""
    return end_to_end(fields, _REWRITTEN | but_not)


def of_a_stream(fields: Sequence[tuple[bytes, bytes]]) -> Fields:
    """An upstream's response fields as the head of a re-framed stream."""
    kept = end_to_end(fields, _OF_THE_BYTES | {b"cache-control", b"x-accel-buffering"})
    return [*STREAM_FIELDS, *kept]


def of_a_failure(fields: Iterable[tuple[bytes, bytes]], own: Iterable[tuple[bytes, bytes]] = ()) -> Fields:
    """Those of an upstream's response fields that stay when its 200 turns out to be an error: ids to ask it by, when to ask again, limits.
    `own`: fields that the response has already."""
    taken = {name.lower() for name, _ in own}
    kept = [(name.lower(), value) for name, value in fields if name.lower() not in taken]
    return [(name, value) for name, value in kept if name in _OF_A_FAILURE or name.startswith(_LIMITS)]


def first(fields: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a field, or None."""
    size = len(name)
    for field, value in fields:
        if len(field) == size and field.lower() == name:
            return value
    return None


def media_type(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The media type without its parameters, in lower case; empty where there is none."""
    return (first(fields, b"content-type") or b"").partition(b";")[0].strip().lower()
