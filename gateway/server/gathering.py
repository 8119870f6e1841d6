"""Plain answers that are read whole before they are passed on: a stream that nobody asked for, and the list of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import httpx

from gateway.dialects import Dialect
from gateway.errors import Failure
from gateway.relay.failures import in_the_answer
from gateway.relay.patience import Parts
from gateway.server.answers import answer
from gateway.server.asking import Refused
from gateway.server.call import Call
from gateway.server.passing import gather, head
from gateway.wire import headers
from gateway.wire.coding import CodingError, Decompressor, codings
from gateway.wire.sse import Decoder

_STALE = frozenset({b"content-type", b"content-length", b"content-encoding"})  # said of the stream


async def pass_gathered(call: Call, response: httpx.Response, dialect: type[Dialect]) -> None:
    """A stream, added up to the one answer that was asked for. Refused where it is none, or is cut short."""
    body = await _whole(call, response, _speaks)
    try:
        for coding in reversed(codings(headers.first(response.headers.raw, b"content-encoding"))):
            body = Decompressor(coding, call.gateway.settings.limits.event_bytes).feed(body)
    except CodingError as error:
        raise Refused(Failure("upstream_encoding", f"The upstream's answer cannot be read: {error}.")) from None
    decoder = Decoder(call.gateway.settings.limits.event_bytes)
    made = dialect.gathered([*decoder.feed(body), *decoder.close()])
    if isinstance(made, Failure):
        raise Refused(replace(made, headers=(*made.headers, *headers.of_a_failure(response.headers.raw))))
    extra = [field for field in head(response, call.request_id) if field[0] not in _STALE]
    await answer(call.send, 200, made, extra=extra)


async def pass_models(call: Call, response: httpx.Response) -> None:
    """The upstream's list of models goes by: those names may stand in metrics."""
    body = await _whole(call, response)
    if headers.first(response.headers.raw, b"content-encoding") is None:
        call.gateway.learn_models(body)
    fields = [field for field in head(response, call.request_id) if field[0] != b"content-length"]
    await call.send({"type": "http.response.start", "status": 200, "headers": [*fields, (b"content-length", b"%d" % len(body))]})
    await call.send({"type": "http.response.body", "body": body, "more_body": False})


def _speaks(part: bytes) -> bool:
    """Whether it holds more of an event stream than comments."""
    return any(line and not line.startswith(b":") for line in part.splitlines())


async def _whole(call: Call, response: httpx.Response, says: Callable[[bytes], bool] = bool) -> bytes:
    """Refused where it is cut, or larger than an event may be. `says`: whether a part is a sign of life."""
    settings = call.gateway.settings
    parts = Parts(response, call.gateway.loop, settings.clocks, call.began, says)
    try:
        body = await gather(response, parts, settings.limits.event_bytes)
    except httpx.TransportError as error:
        raise Refused(in_the_answer(error)) from None
    if body is None:
        raise Refused(Failure("upstream_event_too_large", "The upstream's answer is larger than limits.event_bytes; raise it."))
    return body
