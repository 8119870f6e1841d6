"""The page's files and its event stream.

A look is an event of figures every TICK_S. All viewers share one look; nothing is read, built or kept while nobody is there. Bounded: so
many viewers, so many rows a look; a viewer that reads slowly gets fewer looks, each whole in itself.
"""

from __future__ import annotations

import asyncio
from importlib import resources
from typing import Any, Final

import msgspec

from gateway import __version__
from gateway.relay.channel import Send
from gateway.server.answers import answer
from gateway.server.asking import Receive
from gateway.server.call import Scope
from gateway.server.gateway import Gateway
from gateway.server.page import figures
from gateway.server.page.guard import may_look
from gateway.wire.headers import Fields

TICK_S: Final = 0.1
VIEWERS_AT_MOST: Final = 16
_TYPES: Final = {"html": b"text/html; charset=utf-8", "js": b"text/javascript; charset=utf-8", "css": b"text/css; charset=utf-8"}
FILES: Final = {
    "/": "index.html",
    "/-/page/app.js": "app.js",
    "/-/page/curves.js": "curves.js",
    "/-/page/try.js": "try.js",
    "/-/page/style.css": "style.css",
}
FEED: Final = "/-/live"
_STREAM: Final = b"text/event-stream; charset=utf-8"
# Nothing from elsewhere, nowhere else to send to, in nobody's frame.
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
_SAFE: Final[Fields] = [
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class Page:
    """A raw ASGI callable for FILES and FEED."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._files: dict[str, bytes] = {}
        self._viewers = 0
        self._look = b""
        self._look_at = float("-inf")
        self._kinds: dict[str, tuple[str | None, tuple[float, ...]]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await answer(
                send, 405, b'{"error":{"message":"GET only","type":"invalid_request_error","code":"invalid_request","param":null}}'
            )
        elif scope["path"] == FEED:
            await self._feed(scope, receive, send)
        else:
            name = FILES[scope["path"]]
            await answer(send, 200, self._file(name), _TYPES[name.rpartition(".")[2]], extra=_SAFE)

    def _file(self, name: str) -> bytes:
        if name not in self._files:
            self._files[name] = resources.files("gateway.server.page").joinpath("static", name).read_bytes()
        return self._files[name]

    async def _feed(self, scope: Scope, receive: Receive, send: Send) -> None:
        gateway = self._gateway
        if not may_look(scope, gateway.settings.clients):
            message = b"The page is for this machine, asked for as localhost or 127.0.0.1; from elsewhere it wants a client key."
            await answer(send, 403, b'{"error":{"message":"%b","type":"invalid_request_error","code":"forbidden","param":null}}' % message)
            return
        if self._viewers >= VIEWERS_AT_MOST:
            await answer(send, 503, b'{"error":{"message":"Too many look.","type":"overloaded_error","code":"overloaded","param":null}}')
            return
        if scope["method"] == "HEAD":
            await answer(send, 200, b"", _STREAM, extra=_SAFE)
            return
        self._viewers += 1
        gone = gateway.loop.create_task(_gone(receive))
        try:
            fields = [(b"content-type", _STREAM), (b"x-accel-buffering", b"no"), *_SAFE]
            await send({"type": "http.response.start", "status": 200, "headers": fields})
            while not gone.done() and not gateway.draining:
                await send({"type": "http.response.body", "body": self._frame(), "more_body": True})
                await asyncio.wait({gone}, timeout=TICK_S)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._viewers -= 1
            gone.cancel()
            if not self._viewers:  # nobody looks, nothing is kept
                self._look, self._look_at, self._kinds = b"", float("-inf"), {}

    def _frame(self) -> bytes:
        now = self._gateway.loop.time()
        if now - self._look_at >= TICK_S * 0.9:
            self._look_at = now
            self._look = b"data: " + msgspec.json.encode(self._figures(now)) + b"\n\n"
        return self._look

    def _figures(self, now: float) -> dict[str, Any]:
        gateway = self._gateway
        running = sorted(gateway.running.items(), key=lambda item: item[0].stream.started, reverse=True)
        rows = []
        kinds: dict[str, tuple[str | None, tuple[float, ...]]] = {}
        for exchange, record in running[: figures.SHOWN_AT_MOST]:
            found = figures.running(exchange, record, now)
            before, sums = self._kinds.get(record.request_id, (None, None))
            kind, sums_now = figures.kind_of(exchange.stream.arrived, sums)
            kinds[record.request_id] = (kind or before, sums_now)
            found["kind"] = kind or before
            rows.append(found)
        self._kinds = kinds
        return {
            "version": __version__,
            "at": round(now, 3),
            "active": len(running),
            "held": round(sum(exchange.stream.pacer.backlog_tokens for exchange, _ in running), 1),
            "streams": rows,
            "ended": list(gateway.ended.rows),
            "totals": figures.totals(gateway.metrics, gateway.ended),
            "upstreams": figures.upstreams(gateway.healths, now),
        }


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
