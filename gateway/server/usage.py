"""The usage of an answer: asked for where the client did not, read from streams and from whole answers, and handed on to be paid.

Owns which upstreams are asked in addition: not those that are set not to be, nor those that refused it once, whose client never notices.
"""

from __future__ import annotations

from typing import Any, Final

import httpx
from msgspec import UNSET

from gateway.dialects import Dialect
from gateway.dialects.base import Usage
from gateway.dialects.choices import ChoicesDialect
from gateway.dialects.usage import of_answer
from gateway.policy.asking import asking_usage, asks_already, refused_for_it
from gateway.policy.cost import TOKEN_BYTES
from gateway.relay.channel import Message
from gateway.relay.exchange import Exchange
from gateway.server.call import Call
from gateway.server.passing import gather
from gateway.settings import Upstream
from gateway.wire import headers, jsontext
from gateway.wire.coding import CodingError, Decompressor, codings

_REFUSALS: Final = (400, 422)
_REFUSAL_BYTES: Final = 2**20
_ANSWER_BYTES: Final = 16 * 2**20  # of a whole answer that is looked into; a larger one counts as one without usage
_GUESSED_TOKENS: Final = 32_000  # the most that a prompt is guessed at by its size alone: larger bodies are mostly files


def asking(call: Call, body: bytes, upstream: Upstream) -> bytes | None:
    """The body of a streamed request that asks this upstream for usage in addition; None where it is to be sent as it is."""
    gateway, ask = call.gateway, call.ask
    if not (upstream.ask_usage and ask.stream and ask.carried is not None and _wanted(call)):
        return None
    if call.dialect is None or not issubclass(call.dialect, ChoicesDialect) or upstream.name in gateway.refuses_usage:
        return None
    if headers.first(call.fields, b"content-encoding") is not None:  # a compressed body goes on as it came
        return None
    options = _options(body, ask.carried.stream_options)
    if asks_already(options):
        return None
    made = asking_usage(body, options)
    if made is not None:
        call.hides_usage = True
    return made


def _options(body: bytes, asked: Any) -> Any:
    """`stream_options` of the body that is sent: what the client `asked`, without our own controls, with what its route sets."""
    if asked is UNSET and b'"stream_options"' not in body:
        return UNSET
    raw = jsontext.members(body).get("stream_options")
    return UNSET if raw is None else jsontext.value(raw)


def _wanted(call: Call) -> bool:
    settings, controls = call.gateway.settings, call.controls
    if settings.cost.ask_usage != "auto":
        return settings.cost.ask_usage == "always"
    budgeted = controls is not None and controls.budget_usd is not None
    return bool(settings.clients or settings.cost.prices) or call.gateway.admission.weighs or budgeted


async def opened(call: Call, transport: httpx.AsyncBaseTransport, asked: httpx.Request, own: httpx.Request) -> httpx.Response:
    """The answer to a request that asks for usage in addition. If that is what is wrong with it, to the client's `own`."""
    response = await transport.handle_async_request(asked)
    if response.status_code not in _REFUSALS:
        return response
    assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # what an async transport gives
    body = await gather(response, response.stream, _REFUSAL_BYTES)  # the clock of the answer's head runs on
    if body is not None and not refused_for_it(body):
        return httpx.Response(
            response.status_code, headers=response.headers.raw, stream=httpx.ByteStream(body), extensions=response.extensions
        )
    answer = await transport.handle_async_request(own)
    if 200 <= answer.status_code < 300:  # so that was it
        call.gateway.refuses_usage.add(call.record.upstream)
    return answer


class Reader:
    """Looks at a whole answer as it passes, for its usage. Bounded; what it cannot read it forgets."""

    __slots__ = ("_fields", "_parts", "_size", "_status")

    def __init__(self) -> None:
        self._status = 0
        self._fields: headers.Fields = []
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status, self._fields = message["status"], message["headers"]
        elif self._status == 200 and self._size <= _ANSWER_BYTES and headers.media_type(self._fields) == b"application/json":
            self._parts.append(message.get("body", b""))
            self._size += len(self._parts[-1])

    def usage(self, dialect: type[Dialect]) -> Usage | None:
        if not self._parts or self._size > _ANSWER_BYTES:
            return None
        body = b"".join(self._parts)
        try:
            for coding in reversed(codings(headers.first(self._fields, b"content-encoding"))):
                body = Decompressor(coding, _ANSWER_BYTES).feed(body)
        except CodingError:
            return None
        return of_answer(dialect.name, body)


def settle_answer(call: Call, reader: Reader) -> None:
    """A whole answer has passed."""
    usage = reader.usage(call.dialect) if call.dialect is not None else None
    if usage is not None:
        call.record.input_tokens, call.record.output_tokens = usage.input_tokens, usage.output_tokens
    settle(call, usage, None)


def settle_stream(call: Call, exchange: Exchange) -> None:
    """A stream is over: what it took is counted. Where it was cut, that is estimated from what came."""
    dialect = exchange.stream.dialect
    tokens = exchange.stream.arrived.tokens
    usage = dialect.usage
    if usage is None and tokens:
        begun = dialect.begun_usage
        prompt = begun.input_tokens if begun is not None and begun.input_tokens is not None else _prompt_tokens(call)
        usage = Usage(
            prompt,
            round(tokens),
            cache_read_tokens=begun.cache_read_tokens if begun is not None else 0,
            cache_write_tokens=begun.cache_write_tokens if begun is not None else 0,
            cache_write_1h_tokens=begun.cache_write_1h_tokens if begun is not None else 0,
        )
    settle(call, usage, dialect.model)


def settle(call: Call, usage: Usage | None, reported_model: str | None) -> None:
    """Once for each answer, at its end. None: nothing is known to have been generated."""
    if call.settled:
        return
    call.settled = True
    costs = call.gateway.costs
    if call.spending is not None:
        call.spending.over()
    if call.place is not None:
        tokens = 0 if usage is None else (usage.input_tokens or 0) + (usage.output_tokens or 0) + usage.unlisted_tokens
        if call.place.counts:
            costs.later(call.place.count(tokens))
    if usage is None:
        return
    models = tuple(dict.fromkeys(name for name in (call.sent_model, reported_model, call.ask.model) if name))
    upstream = next((target.upstream for target in call.gateway.targets if target.upstream.name == call.record.upstream), None)
    if models and upstream is not None:
        costs.settle(call.record, call.client, upstream, models, usage)


def _prompt_tokens(call: Call) -> int:
    return call.prompt_tokens or min(call.prompt_bytes // TOKEN_BYTES, _GUESSED_TOKENS)
