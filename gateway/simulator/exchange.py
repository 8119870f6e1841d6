"""One request and its response over ASGI.

Owns the reading of the body, the counting of writes, and that a client's leaving is noticed at once. Knows no dialect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from email.utils import formatdate
from typing import Any, Final

from gateway.simulator.ask import BODY_LIMIT_BYTES, invalid
from gateway.simulator.encode import json_bytes
from gateway.simulator.stats import Entry, Stats

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

RESET: Final = "simulator.reset"  # an ASGI extension of our own: {"now": function that resets the connection}
_JSON: Final = b"application/json"


class ClientGone(Exception):
    pass


class Exchange:
    def __init__(self, scope: Scope, receive: Receive, send: Send, stats: Stats, entry: Entry) -> None:
        self.scope = scope
        self.entry = entry
        self._stats = stats
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self._receive = receive
        self._send = send

    async def body(self) -> bytes:
        """The whole request body. Raises ClientGone, Rejected."""
        parts, size = [], 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > BODY_LIMIT_BYTES:
                raise invalid("Request body is too large", status=413)
            if not message.get("more_body"):
                return b"".join(parts)

    async def start(self, status: int, content_type: bytes, headers: Iterable[Header] = ()) -> None:
        self.entry.status = status
        head = [
            (b"content-type", content_type),
            (b"date", formatdate(usegmt=True).encode()),
            (b"x-request-id", self.entry.request_id.encode("latin-1")),
            *headers,
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": head})

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """One write. Waits while the client does not read."""
        if data:
            self.entry.sent += len(data)
            self.entry.writes += 1
        if last:  # counted first: who has seen the end may ask at once
            self._stats.end(self.entry, "finished")
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def reply(self, status: int, answer: Any, headers: Iterable[Header] = (), *, cut: bool = False) -> None:
        """A whole JSON response; `cut` stops in its middle."""
        data = json_bytes(answer)
        await self.start(status, _JSON, ((b"content-length", b"%d" % len(data)), *headers))
        await self.write(data[: len(data) // 2] if cut else data, last=not cut)

    async def while_client_stays(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; if the client goes first, the work is cancelled at once. Raises ClientGone."""
        player = asyncio.ensure_future(work)
        watcher = asyncio.ensure_future(self.gone())
        try:
            await asyncio.wait((player, watcher), return_when=asyncio.FIRST_COMPLETED)
            if not player.done():
                raise ClientGone
            player.result()
        finally:
            player.cancel()
            watcher.cancel()
            await asyncio.gather(player, watcher, return_exceptions=True)

    async def gone(self) -> None:
        """Returns when the connection is no more."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def reset(self) -> None:
        """The connection ends as when a process dies: RST in place of an orderly end."""
        self._stats.end(self.entry, "finished")
        extension = (self.scope.get("extensions") or {}).get(RESET)
        if extension is None:
            raise ConnectionResetError("the scenario ends with a reset, and this server knows no other way to one")
        extension["now"]()
        await self.gone()
