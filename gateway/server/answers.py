"""Answers of the gateway's own."""

from __future__ import annotations

from gateway.dialects.base import error_body
from gateway.errors import Failure
from gateway.relay.channel import Send
from gateway.wire import headers
from gateway.wire.headers import Fields


async def answer(send: Send, status: int, body: bytes, content_type: bytes = b"application/json", extra: Fields | None = None) -> None:
    fields: Fields = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *(extra or [])]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def refuse(send: Send, failure: Failure, request_id: bytes, body: bytes | None = None) -> None:
    """A failure before anything was sent."""
    extra: Fields = [*failure.headers]
    if headers.first(extra, b"x-request-id") is None:
        extra.append((b"x-request-id", request_id))
    if failure.code == "request_too_large":  # what the client still sends is not read
        extra.append((b"connection", b"close"))
    await answer(send, failure.http_status, error_body(failure) if body is None else body, extra=extra)
