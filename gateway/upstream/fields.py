"""Owns how a request and a response look as HTTP/2's fields (RFC 9113, section 8).

Pure. A response that HTTP/2 forbids is its stream's error, never the connection's, whose other streams have done nothing wrong:
hence its fields are checked here and not by h2. What was the sender's mistake but harms nobody (fields of a connection) is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import httpx

from .request import Outgoing

Fields = list[tuple[bytes, bytes]]

# Of the connection, not of the message: HTTP/2 has other ways for each.
_CONNECTION: Final = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
FORBIDDEN: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # in values: what no HTTP/1.1 can carry (RFC 9110, 5.5), as llhttp has it
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")


class Malformed(Exception):
    """The response is none; the message says why, in a few words."""


@dataclass(frozen=True, slots=True)
class Head:
    """length_bytes: what the body must come to, None for whatever comes; 0 where there can be none."""

    status: int
    fields: Fields
    length_bytes: int | None


def of_request(request: httpx.Request, outgoing: Outgoing) -> Fields:
    """The request's own fields in their order, names in lower case, after what the request line was."""
    url = request.url
    fields = [
        (b":method", request.method.encode("ascii")),
        (b":scheme", url.raw_scheme),
        (b":authority", url.netloc),
        (b":path", url.raw_path or b"/"),
    ]
    length = False
    for name, value in request.headers.raw:
        name = name.lower()
        if name == b"host":
            fields[2] = (b":authority", value)
        elif name == b"te":
            if value.strip().lower() == b"trailers":
                fields.append((name, b"trailers"))
        elif name not in _CONNECTION:
            length = length or name == b"content-length"
            fields.append((name, value.strip(b" \t")))
    if not length and outgoing.content:
        fields.append((b"content-length", b"%d" % len(outgoing.content)))
    return fields


def of_response(raw: Iterable[tuple[bytes, bytes]], to_head: bool, head_bytes: int) -> Head:
    """From the fields as they came. to_head: it answers a HEAD request. Raises Malformed."""
    status = 0
    fields: Fields = []
    length: int | None = None
    size_bytes = 0
    for name, value in raw:
        size_bytes += len(name) + len(value) + 4  # counted as in HTTP/1.1, so that the same responses pass
        if size_bytes > head_bytes:
            raise Malformed(f"its head is larger than {head_bytes} bytes")
        if name == b":status":
            if status or fields or not _LENGTH.fullmatch(value) or len(value) != 3:
                raise Malformed("its status is not in order")
            status = int(value)
        elif not _NAME.fullmatch(name) or FORBIDDEN.search(value):
            raise Malformed("one of its fields holds a byte that HTTP forbids")
        elif name not in _CONNECTION:
            value = value.strip(b" \t")
            if name == b"content-length":
                if not _LENGTH.fullmatch(value) or length not in (None, int(value)):
                    raise Malformed("its content-length is not one number")
                if length is not None:
                    continue  # said twice: HTTP/1.1 clients must not see that
                length = int(value)
            fields.append((name, value))
    if status < 100:
        raise Malformed("it has no status")
    if status == 101:
        raise Malformed("it switches protocols (101)")
    if to_head or status in (204, 304):
        length = 0
    return Head(status, fields, length)
