"""The request as the upstream gets it: the client's own, less what is the hop's or ours, with the upstream's key where it has one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx

from gateway.settings import Clocks
from gateway.upstream.targets import Target
from gateway.upstream.transport import FRESH
from gateway.wire import headers
from gateway.wire.headers import Fields

# Headers that the gateway acts on.
CONTROLS: Final = frozenset({b"x-client-streams", b"x-cluster", b"x-budget-usd", b"x-stream-timing", b"x-stream-trace"})
CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"api-key"})
_BODILESS: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})


def request_for(
    target: Target,
    method: str,
    path: bytes,
    query: bytes,
    fields: Fields,
    content: bytes | AsyncIterator[bytes] | None,
    *,
    stream: bool,
    clocks: Clocks,
    key: int = 0,
    repeated: bool = False,
) -> httpx.Request:
    """`content`: None where the client sent no body. `stream`: an event stream is asked for, so nothing may be compressed. `key`: which of
    the upstream's keys, where it has some. `repeated`: an attempt failed before, so that no kept connection is trusted."""
    upstream = target.upstream
    secret = upstream.keys[key] if upstream.keys else None
    dropped = frozenset() if upstream.forward_extensions else CONTROLS
    if secret is not None or target.keeps_keys:
        dropped |= CREDENTIALS
    own = {name.lower().encode("latin-1"): value.encode("latin-1") for name, value in upstream.headers}
    out = [(b"host", target.host), *headers.to_upstream(fields, dropped | frozenset(own))]
    accepted = b"identity" if stream else headers.first(fields, b"accept-encoding")
    if accepted is not None:
        out.append((b"accept-encoding", accepted))
    if secret is not None and b"authorization" not in own:
        out.append((b"authorization", b"Bearer " + secret.encode("latin-1")))
    out += own.items()
    if isinstance(content, bytes):
        if content or method not in _BODILESS:
            out.append((b"content-length", b"%d" % len(content)))
    elif content is not None:
        length = headers.first(fields, b"content-length")
        out.append((b"transfer-encoding", b"chunked") if length is None else (b"content-length", length))
    timeouts = {"connect": clocks.connect, "read": None, "write": None, "pool": None}  # the rest is the relay's to watch
    return httpx.Request(
        method, target.url(path, query), headers=out, content=content or None, extensions={"timeout": timeouts, FRESH: repeated}
    )
