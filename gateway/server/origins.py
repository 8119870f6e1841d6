"""Which web pages may use the API: those of the gateway's own origin, and those of `listen.cors_origins`.

A page can make a browser send requests to a program that listens on loopback, also such as need no permission (a POST of plain text): the
upstream's key would be used, and paid for, by whatever page is open. So a browser's request from elsewhere is refused before it costs
anything, and preflights are answered here, whatever the upstream would allow. Programs that are no browsers send none of these fields.

Source: the Fetch standard (CORS protocol; `Sec-Fetch-Site`, which no page can forge; a proxy in front may have changed `Host`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from gateway.dialects import dialect_of
from gateway.errors import Failure
from gateway.relay.channel import Message, Send
from gateway.server.answers import refuse
from gateway.server.asking import Receive
from gateway.server.call import Scope
from gateway.upstream.targets import api_path
from gateway.wire.headers import Fields

LOG: Final = logging.getLogger("decluster")
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_OURS: Final = frozenset({b"same-origin", b"none"})  # none: the person's own doing, an address typed in
_ASKED: Final = frozenset(
    {
        *(b"host", b"origin", b"sec-fetch-site"),
        *(b"access-control-request-method", b"access-control-request-headers", b"access-control-request-private-network"),
    }
)
_METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_KEPT_S: Final = b"7200"  # what Chromium keeps a permission at most
_SHOWN_CHARS: Final = 200  # of a foreign origin, in a message and a log line


def guarded(app: App, allowed: Sequence[str]) -> App:
    """The application for browsers of the allowed origins; `*` is every one."""
    known = frozenset(origin.encode() for origin in allowed)
    everyone = b"*" in known

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        asked = {name: value for name, value in scope["headers"] if name in _ASKED}
        origin = asked.get(b"origin")
        if _is_ours(asked):
            await app(scope, receive, send)
        elif not everyone and (origin is None or origin.lower() not in known):
            await _refuse(scope, send, (origin or b"").decode("latin-1")[:_SHOWN_CHARS])
        else:
            permitted: Fields = [(b"access-control-allow-origin", b"*" if everyone or origin is None else origin)]
            permitted += [] if everyone else [(b"vary", b"origin")]
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in asked:
                await send({"type": "http.response.start", "status": 204, "headers": permitted + _permission(asked)})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await app(scope, receive, _telling(send, [*permitted, (b"access-control-expose-headers", b"*")]))

    return guard


def is_foreign(fields: Fields) -> bool:
    """Whether a page of another origin had a browser ask."""
    return not _is_ours({name: value for name, value in fields if name in _ASKED})


def _is_ours(asked: dict[bytes, bytes]) -> bool:
    origin, site = asked.get(b"origin"), asked.get(b"sec-fetch-site")
    return site in _OURS or (site is None and (origin is None or _host_of(origin) == asked.get(b"host", b"").lower()))


def _host_of(origin: bytes) -> bytes:
    return origin.partition(b"://")[2].lower()


def _permission(asked: dict[bytes, bytes]) -> Fields:
    """What a preflight wants to hear. `*` for headers would leave Authorization out, so they are repeated."""
    fields = [(b"access-control-allow-methods", _METHODS), (b"access-control-max-age", _KEPT_S)]
    if wanted := asked.get(b"access-control-request-headers"):
        fields.append((b"access-control-allow-headers", wanted))
    if b"access-control-request-private-network" in asked:
        fields.append((b"access-control-allow-private-network", b"true"))
    return fields


def _telling(send: Send, permitted: Fields) -> Send:
    """Our permission in place of the upstream's: two of one field, and a browser takes neither."""

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [field for field in message["headers"] if not field[0].startswith(b"access-control-")]
            message = {**message, "headers": [*kept, *permitted]}
        await send(message)

    return tell


async def _refuse(scope: Scope, send: Send, origin: str) -> None:
    LOG.info("refused a page of another origin; listen.cors_origins would let it in", extra={"origin": origin})
    page = f"Pages of {origin}" if origin else "Pages of other origins"
    failure = Failure("origin_not_allowed", f"{page} may not use this gateway: add the page's origin to listen.cors_origins.")
    await refuse_early(scope, send, failure)


async def refuse_early(scope: Scope, send: Send, failure: Failure) -> None:
    """In the shape of whatever is asked for, before it is looked at."""
    dialect = dialect_of("POST", api_path(scope.get("raw_path") or scope["path"].encode()) or b"")
    request_id = b"req_" + os.urandom(12).hex().encode()
    await refuse(send, failure, request_id, dialect.error_body(failure) if dialect else None)
