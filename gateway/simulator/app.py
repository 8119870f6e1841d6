"""The embedded upstream as an ASGI application: OpenAI's and Anthropic's API, played from the table of scenarios.

Owns paths, status codes and the playing in time. Request headers for tests: `x-simulate-speed: 10` divides all times by 10,
`x-simulate-seed: NAME` chooses another text (so does the body's `seed`), `x-request-id` names the request in the statistics.
A streamed response can be had again at GET /v1/responses/{id}, with `stream=true` and `starting_after` event by event; one asked for with
`background` is made on when its client leaves. GET /_sim/stats tells what was seen (stats.py); GET / lists the scenarios.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from gateway.simulator import ask as asks
from gateway.simulator import chat, completions, embeddings, messages, play, responses, scenarios
from gateway.simulator.encode import Json
from gateway.simulator.exchange import ClientGone, Exchange, Header, Receive, Scope, Send
from gateway.simulator.kept import Kept, Shelf
from gateway.simulator.scenarios import Rejection, Scenario
from gateway.simulator.stats import Stats

_EVENTS: Final = b"text/event-stream; charset=utf-8"
_FOREVER_S: Final = 86_400.0  # longer than any client waits
_CREATED: Final = 1_790_000_000  # of every model


@dataclass(frozen=True, slots=True)
class Dialect:
    read: Callable[[Json, Mapping[str, str]], asks.Ask]
    renderer: Callable[[asks.Ask, Scenario], play.Renderer]
    flat: bool = False


_DIALECTS: Final[Mapping[str, Dialect]] = {
    "/v1/chat/completions": Dialect(chat.read, chat.Chat),
    "/v1/completions": Dialect(completions.read, completions.Completions, flat=True),
    "/v1/responses": Dialect(responses.read, responses.Responses),
    "/v1/messages": Dialect(messages.read, messages.Messages),
}


class Simulator:
    """clock: seconds of a monotonic clock; sleep: waits so many. Both are real by default, and virtual in tests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self.stats = Stats(clock)
        self._shelf = Shelf()
        self._makings: set[asyncio.Task[None]] = set()
        self._clock = clock
        self._sleep = sleep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"the simulator speaks HTTP only, not {scope['type']}")
        named = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        stats = Stats(self._clock) if scope["path"].startswith("/_sim/") else self.stats  # who asks is not counted
        entry = stats.begin(named or f"req_{secrets.token_hex(12)}", scope["method"], scope["path"])
        exchange = Exchange(scope, receive, send, stats, entry)
        try:
            await self._answer(exchange)
        except ClientGone:
            stats.end(entry, "cancelled")
        except asks.Rejected as rejected:
            await _reject(exchange, rejected.rejection)
        finally:
            stats.end(entry, "finished")

    async def _answer(self, exchange: Exchange) -> None:
        path, method = exchange.entry.path, exchange.entry.method
        if exchange.headers.get("upgrade", "").lower() == "websocket":
            raise asks.invalid("This server speaks no WebSocket: use POST.", status=426)
        if dialect := _DIALECTS.get(path):
            _need(method, "POST")
            await self._play(exchange, dialect)
        elif path.startswith("/v1/responses/"):
            _need(method, "GET")
            await self._retrieve(exchange, path.removeprefix("/v1/responses/"))
        elif path == "/v1/messages/count_tokens":
            _need(method, "POST")
            body = await _body(exchange)
            await exchange.reply(200, {"input_tokens": asks.prompt_tokens(body)})
        elif path == "/v1/embeddings":
            _need(method, "POST")
            body = await _body(exchange)
            if body.get("model") != embeddings.MODEL:
                raise asks.Rejected(scenarios.unknown(str(body.get("model"))))
            await exchange.reply(200, embeddings.answer(body))
        elif path == "/v1/models" or path.startswith("/v1/models/"):
            _need(method, "GET")
            await exchange.reply(200, _models(path.removeprefix("/v1/models").removeprefix("/"), exchange.headers))
        elif path == "/_sim/stats":
            await exchange.reply(200, self.stats.report())
        elif path == "/":
            await exchange.reply(200, {name: scenario.about for name, scenario in scenarios.TABLE.items()})
        else:
            raise asks.invalid(f"Invalid URL ({method} {path})", status=404)

    async def _play(self, exchange: Exchange, dialect: Dialect) -> None:
        began = self._clock()
        ask = dialect.read(await _body(exchange), exchange.headers)
        exchange.entry.model, exchange.entry.stream = ask.model, ask.stream
        scenario = scenarios.find(ask.model)
        if scenario is None:
            raise asks.Rejected(scenarios.unknown(ask.model))
        if scenario.rejection is not None:
            raise asks.Rejected(scenario.rejection)
        plan = play.plan(scenario, ask, flat=dialect.flat)
        renderer = dialect.renderer(ask, scenario)
        if isinstance(renderer, responses.Responses) and ask.stream:
            kept = self._shelf.keep(renderer.response["id"], renderer.answer)
            if ask.body.get("background") is True:  # it is made whether somebody listens or not
                self._keep_making(self._make(plan, renderer, began, kept))
                await exchange.while_client_stays(self._follow(exchange, kept, -1))
                return
            await exchange.while_client_stays(self._stream(exchange, plan, renderer, began, kept))
        else:
            work = self._stream if ask.stream else self._whole
            await exchange.while_client_stays(work(exchange, plan, renderer, began))
        if scenario.ending == "reset":
            await exchange.reset()

    async def _retrieve(self, exchange: Exchange, name: str) -> None:
        kept = self._shelf.find(name)
        if kept is None:
            raise asks.invalid(f"Response with id '{name}' not found.", status=404)
        query = dict(parse_qsl(exchange.scope.get("query_string", b"").decode("latin-1")))
        after = query.get("starting_after", "-1")
        if not after.removeprefix("-").isdigit():
            raise asks.invalid("'starting_after' has to be an integer", "starting_after")
        if query.get("stream") == "true":
            await exchange.while_client_stays(self._follow(exchange, kept, int(after)))
        else:
            await exchange.reply(200, kept.answer(), _headers(exchange))

    async def _follow(self, exchange: Exchange, kept: Kept, after: int) -> None:
        await exchange.start(200, _EVENTS, ((b"cache-control", b"no-cache"), *_headers(exchange)))
        async for data in kept.follow(after):
            await exchange.write(data)
        await exchange.write(b"", last=True)

    async def _make(self, plan: play.Plan, renderer: play.Renderer, began: float, kept: Kept) -> None:
        for at_s, data in play.writes(plan, renderer):
            await self._until(began + at_s / renderer.ask.speed)
            kept.add(data)
        if plan.scenario.ending != "hang":
            kept.finish()

    def _keep_making(self, work: Coroutine[Any, Any, None]) -> None:
        making = asyncio.get_running_loop().create_task(work)
        self._makings.add(making)
        making.add_done_callback(self._makings.discard)

    async def _stream(self, exchange: Exchange, plan: play.Plan, renderer: play.Renderer, began: float, kept: Kept | None = None) -> None:
        ending = plan.scenario.ending
        if ending == "hang-before-headers":
            await self._sleep(_FOREVER_S)
        await exchange.start(200, _EVENTS, ((b"cache-control", b"no-cache"), *_headers(exchange)))
        for at_s, data in play.writes(plan, renderer):
            await self._until(began + at_s / renderer.ask.speed)
            if kept is not None:
                kept.add(data)
            await exchange.write(data)
            await self._sleep(0)  # other streams' writes that are due come before the making of the next one here
        if ending == "hang":
            await self._sleep(_FOREVER_S)
        await self._until(began + plan.ends_at_s / renderer.ask.speed)
        if kept is not None:
            kept.finish()
        if ending == "reset":
            await self._sleep(scenarios.RESET_AFTER_S)
        else:
            await exchange.write(b"", last=True)

    async def _whole(self, exchange: Exchange, plan: play.Plan, renderer: play.Renderer, began: float) -> None:
        """As long as the model would generate, nothing; then the answer."""
        ending = plan.scenario.ending
        if ending in ("hang", "hang-before-headers"):
            await self._sleep(_FOREVER_S)
        answer = play.whole(plan, renderer)
        await self._until(began + plan.ends_at_s / renderer.ask.speed)
        if ending == "error":
            raise asks.Rejected(Rejection(500, chat.in_stream_error()["message"], "server_error", anthropic_type="api_error"))
        await exchange.reply(200, answer, _headers(exchange), cut=ending == "reset")
        if ending == "reset":
            await self._sleep(scenarios.RESET_AFTER_S)

    async def _until(self, at: float) -> None:
        """Also where no time is left the loop gets a turn, so that writes stay apart."""
        await self._sleep(max(0.0, at - self._clock()))


def _need(method: str, wanted: str) -> None:
    if method != wanted:
        raise asks.invalid(f"Not allowed to {method} here, only {wanted}.", status=405)


async def _body(exchange: Exchange) -> Json:
    return asks.decode(await exchange.body(), exchange.headers.get("content-encoding", "").lower())


def _is_anthropic(exchange: Exchange) -> bool:
    return exchange.entry.path.startswith("/v1/messages") or "anthropic-version" in exchange.headers


async def _reject(exchange: Exchange, rejection: Rejection) -> None:
    headers: list[Header] = [*_headers(exchange)]
    if rejection.retry_after_s:
        headers.append((b"retry-after", b"%d" % rejection.retry_after_s))
    if _is_anthropic(exchange):
        error: Json = {"type": rejection.anthropic_type, "message": rejection.message}
        body = {"type": "error", "error": error, "request_id": exchange.entry.request_id}
        await exchange.reply(rejection.anthropic_status or rejection.status, body, headers)
        return
    error = {"message": rejection.message, "type": rejection.type, "param": rejection.param, "code": rejection.code}
    await exchange.reply(rejection.status, {"error": error}, headers)


def _headers(exchange: Exchange) -> tuple[Header, ...]:
    """What the providers' own answers carry, so that a proxy shows what it keeps."""
    if _is_anthropic(exchange):
        return (
            (b"request-id", exchange.entry.request_id.encode("latin-1")),
            (b"anthropic-ratelimit-requests-limit", b"4000"),
            (b"anthropic-ratelimit-requests-remaining", b"3999"),
        )
    return (
        (b"openai-version", b"2020-10-01"),
        (b"openai-processing-ms", b"12"),
        (b"x-ratelimit-limit-requests", b"10000"),
        (b"x-ratelimit-remaining-requests", b"9999"),
    )


def _models(name: str, headers: Mapping[str, str]) -> Json:
    """One model, or all where there is no name, in the shape of the API that the client speaks."""

    def model(name: str) -> Json:
        if "anthropic-version" in headers:
            return {"type": "model", "id": name, "display_name": name, "created_at": "2026-09-21T14:13:20Z"}
        return {"id": name, "object": "model", "created": _CREATED, "owned_by": "decluster"}

    known = (*scenarios.TABLE, embeddings.MODEL)
    if name:
        if name not in known and scenarios.find(name) is None:
            raise asks.Rejected(scenarios.unknown(name))
        return model(name)
    listed: dict[str, Any] = {"object": "list", "data": [model(name) for name in known]}
    if "anthropic-version" in headers:
        listed = {"data": listed["data"], "has_more": False, "first_id": known[0], "last_id": known[-1]}
    return listed
