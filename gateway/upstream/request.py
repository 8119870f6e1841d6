"""Owns how a request looks on the wire: its head as bytes, and how its body is framed (RFC 9112, sections 3 and 6).

Pure: must not know of sockets, pools or the response. Headers go out as `request.headers.raw` has them, in order and case; only
Host and the framing headers are added, and only where they are missing.
Invariant: what `encode` gives is one well-formed head: no header value can smuggle in a second line.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Final

import httpx

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # methods and names (RFC 9110, 5.6.2)
_TARGET: Final = re.compile(rb"[!-~]+")
_FORBIDDEN: Final = re.compile(rb"[\x00\r\n]")  # in values, which may hold any other byte (RFC 9110, 5.5)

# Methods whose meaning foresees content: without content they say so (RFC 9110, 8.6).
_WITH_CONTENT: Final = frozenset({"POST", "PUT", "PATCH"})


@dataclass(slots=True, frozen=True)
class Outgoing:
    """A request ready to be written.

    content: the whole body where it is in memory: it can be sent again. None: it comes from `stream`, once.
    chunked: the body goes in chunks. Else `length_bytes` of it are promised in the head.
    """

    head: bytes
    content: bytes | None
    stream: AsyncIterable[bytes] | None
    chunked: bool
    length_bytes: int


def encode(request: httpx.Request) -> Outgoing:
    """Raises httpx.LocalProtocolError for what must not be put on a wire."""
    content, stream = _body(request)
    method, target = request.method.encode("ascii", "replace"), request.url.raw_path or b"/"
    if _TOKEN.fullmatch(method) is None or _TARGET.fullmatch(target) is None:
        raise httpx.LocalProtocolError("the request's method or target holds a byte that HTTP forbids", request=request)
    lines = [b"%s %s HTTP/1.1\r\n" % (method, target)]
    host = chunked = False
    length: int | None = None
    for name, value in request.headers.raw:
        if _TOKEN.fullmatch(name) is None or _FORBIDDEN.search(value) is not None:
            raise httpx.LocalProtocolError("a header of the request holds a byte that HTTP forbids", request=request)
        lines.append(b"%s: %s\r\n" % (name, value))
        match name.lower():
            case b"host":
                host = True
            case b"content-length":
                length = _length(value, request)
            case b"transfer-encoding":
                chunked = value.strip().lower().endswith(b"chunked")
                if not chunked:
                    raise httpx.LocalProtocolError("a request's transfer-encoding must end with chunked", request=request)
    if chunked and length is not None:
        raise httpx.LocalProtocolError("a request must not have both content-length and transfer-encoding", request=request)
    if not host:
        lines.insert(1, b"Host: %s\r\n" % request.url.netloc)
    if not chunked and length is None:
        if content is None:
            chunked = True
            lines.append(b"Transfer-Encoding: chunked\r\n")
        elif content or request.method in _WITH_CONTENT:
            lines.append(b"Content-Length: %d\r\n" % len(content))
    lines.append(b"\r\n")
    head = b"".join(lines)
    if content is None:
        return Outgoing(head, None, stream, chunked, length or 0)
    if length is not None and length != len(content):
        raise httpx.LocalProtocolError(f"content-length says {length} bytes, but the request's body has {len(content)}", request=request)
    return Outgoing(head, content, None, chunked, len(content))


def _body(request: httpx.Request) -> tuple[bytes | None, AsyncIterable[bytes] | None]:
    try:
        return request.content, None
    except httpx.RequestNotRead:
        stream = request.stream
    if isinstance(stream, httpx.ByteStream):
        return b"".join(stream), None
    if not isinstance(stream, httpx.AsyncByteStream):
        raise httpx.LocalProtocolError("the request's body must be bytes or an asynchronous iterator", request=request)
    return None, stream


def _length(value: bytes, request: httpx.Request) -> int:
    text = value.strip()
    if not text.isdigit():
        raise httpx.LocalProtocolError("the request's content-length is not a number", request=request)
    return int(text)
