"""Answers that are no stream of ours: passed on as they come, byte for byte, with back-pressure in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator

import httpx

from gateway.relay.channel import Message, Send
from gateway.server.asking import ClientGone, Receive, Refused, too_large
from gateway.wire import headers
from gateway.wire.headers import Fields


def head(response: httpx.Response, request_id: bytes) -> Fields:
    """The upstream's response fields as the client gets them: all that are not the hop's own."""
    fields = [(name.lower(), value) for name, value in headers.end_to_end(response.headers.raw)]
    if response.status_code in (204, 304):  # a 304 may say the length of what it does not send, which servers take for a promise
        fields = [field for field in fields if field[0] != b"content-length"]
    if headers.first(fields, b"x-request-id") is None:
        fields.append((b"x-request-id", request_id))
    return fields


async def pass_on(response: httpx.Response, body: AsyncIterator[bytes], send: Send, request_id: bytes, *, hold: bool = False) -> None:
    """`hold`: the head waits for the body's beginning, so that a failure until then can be answered otherwise.

    Raises httpx.TransportError where the upstream's body was cut: then the client's must not end properly either."""
    begin: Message = {"type": "http.response.start", "status": response.status_code, "headers": head(response, request_id)}
    try:
        first = await anext(body, b"") if hold else b""
        await send(begin)
        if first:
            await send({"type": "http.response.body", "body": first, "more_body": True})
        async for chunk in body:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:
        await response.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def gather(response: httpx.Response, body: AsyncIterable[bytes], limit_bytes: int) -> bytes | None:
    """The whole body, or None where it is larger than the limit."""
    parts: list[bytes] = []
    total = 0
    try:
        async for chunk in body:
            total += len(chunk)
            if total > limit_bytes:
                return None
            parts.append(chunk)
    finally:
        await response.aclose()
    return b"".join(parts)


class Upload:
    """A request body that is streamed on as it comes. `done` is set once the client has sent all of it."""

    def __init__(self, receive: Receive, limit_bytes: int | None) -> None:
        self._receive = receive
        self._limit_bytes = limit_bytes
        self.done = asyncio.Event()
        self.begun = False  # something of it may have been sent: it cannot be sent again

    async def chunks(self) -> AsyncIterator[bytes]:
        total = 0
        self.begun = True
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                body = message.get("body", b"")
                total += len(body)
                if self._limit_bytes is not None and total > self._limit_bytes:
                    raise Refused(too_large(self._limit_bytes))
                if body:
                    yield body
                if not message.get("more_body", False):
                    return
        finally:  # also where the upstream wants no more of it: the rest is then drained by whoever watches the client
            self.done.set()
