"""The gateway's parts, made once and shared by all requests; and the book of the requests that run."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import msgspec

from gateway.clock import Lateness, Ticker
from gateway.errors import Failure
from gateway.metrics.metrics import Metrics
from gateway.metrics.record import Record
from gateway.pacing.horizon import Horizon
from gateway.policy.attempts import Health
from gateway.relay.exchange import Exchange
from gateway.server.admission import Admission
from gateway.server.desk import Desk
from gateway.server.page.figures import Ended
from gateway.server.spending import Costs
from gateway.server.telemetry import Telemetry
from gateway.server.tracing import Tracer
from gateway.settings import Settings
from gateway.upstream.targets import Target
from gateway.upstream.tls import context_factory
from gateway.upstream.transport import Transport

LOG: Final = logging.getLogger("decluster.request")
HORIZONS_AT_MOST: Final = 256  # (upstream, model) pairs whose silences are remembered; the least lately used goes


class Gateway:
    """`transport`: None makes our own, one for each CA file and choice of HTTP."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.settings = settings
        self.loop = loop
        self.ticker = Ticker(loop, settings.pacing.frame)
        self.lateness = Lateness(loop, lambda: bool(self.exchanges))
        self.targets = [Target.of(upstream, bool(settings.clients)) for upstream in settings.upstreams]
        self.places = {target.upstream.name: target for target in self.targets}
        self.healths = {upstream.name: Health(upstream, settings.retry, settings.breaker) for upstream in settings.upstreams}
        self.chance: Callable[[], float] = random.random
        self.exchanges: set[Exchange] = set()
        self.running: dict[Exchange, Record] = {}  # for the page
        self.ended = Ended()
        self.metrics = Metrics(lambda: len(self.exchanges), self._backlog_tokens, self._breakers)
        self.admission = Admission(settings, loop)
        self.costs = Costs(settings, loop, self.metrics, self.admission.rates)
        self.refuses_usage: set[str] = set()  # upstreams that answered 400 to being asked for it
        self.desk = Desk(settings, loop)
        self.draining = False
        self.reload: Callable[[], str | None] | None = None  # reads the configuration anew; what is wrong with it
        self.outgrown: list[Admission | Costs] = []  # of configurations before, for those who still run under them
        self.tracer = Tracer(settings.trace)
        self.telemetry = Telemetry(settings.telemetry)
        self._given = transport
        self._transports: dict[tuple[str | None, str], httpx.AsyncBaseTransport] = {}
        self._horizons: OrderedDict[tuple[str, str], Horizon] = OrderedDict()
        for upstream in settings.upstreams:
            self.metrics.know(iter(upstream.models))

    @property
    def target(self) -> Target:
        """Where requests go."""
        return self.targets[0]

    def transport(self, target: Target) -> httpx.AsyncBaseTransport:
        if self._given is not None:
            return self._given
        ca_file, http2 = target.upstream.ca_file, target.upstream.http2
        found = self._transports.get((ca_file, http2))
        if found is None:
            found = self._transports[ca_file, http2] = Transport(
                connections_idle=self.settings.limits.connections_idle, http2=http2, ssl_context=context_factory(ca_file)
            )
        return found

    def horizon(self, target: Target, model: str | None) -> Horizon:
        """What streams of the same upstream and model showed of their silences."""
        key = (target.upstream.name, (model or "")[:128])
        horizon = self._horizons.get(key)
        if horizon is None:
            horizon = self._horizons[key] = Horizon()
            if len(self._horizons) > HORIZONS_AT_MOST:
                self._horizons.popitem(last=False)
        self._horizons.move_to_end(key)
        return horizon

    def learn_models(self, body: bytes) -> None:
        """From an upstream's `/models`: its own names may stand in metrics."""
        try:
            listed = msgspec.json.decode(body)["data"]
            self.metrics.know(entry["id"] for entry in listed if isinstance(entry.get("id"), str))
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
            return  # no such list

    def book(self, record: Record) -> None:
        """A request is over: count it and log its line."""
        self.metrics.book(record)
        self.ended.add(record)
        if record.follows and not record.resume:
            return  # its line is that of the stream which it began
        if LOG.isEnabledFor(logging.INFO):
            LOG.info("request", extra=_line(record))

    async def drain(self, grace_s: float) -> None:
        """Wait for running streams, then end those that outlast the grace with an honest error."""
        self.draining = True
        self.admission.close(Failure("shutting_down", "The gateway is shutting down. Ask again.", headers=((b"retry-after", b"1"),)))
        self.desk.draining()
        until = time.monotonic() + grace_s
        while (running := self._running) and time.monotonic() < until:
            await asyncio.wait(running, timeout=until - time.monotonic())
            await asyncio.sleep(0)  # let those that are done leave the set
        for exchange in tuple(self.exchanges):
            exchange.shut_down()
        for guest in self.desk.guests:
            guest.shut_down()

    @property
    def _running(self) -> set[asyncio.Future[Any]]:
        return {*(exchange.done for exchange in self.exchanges), *(guest.done for guest in self.desk.guests)}

    async def close(self) -> None:
        await self.desk.close()
        await self.costs.close()
        await self.admission.aclose()
        for part in self.outgrown:
            await (part.aclose() if isinstance(part, Admission) else part.close())
        self.tracer.close()
        if self.telemetry.provider is not None:
            await asyncio.to_thread(self.telemetry.close)
        for transport in self._transports.values():
            await transport.aclose()

    def _breakers(self) -> Iterator[tuple[str, int]]:
        return ((name, health.breaker.state.value) for name, health in self.healths.items())

    def _backlog_tokens(self) -> float:
        return sum(exchange.stream.pacer.backlog_tokens for exchange in self.exchanges)


def _line(record: Record) -> dict[str, object]:
    """The log line's fields."""
    line: dict[str, object] = {
        "request_id": record.request_id,
        "path": record.path,
        "operation": record.operation,
        "model": record.model,
        "upstream": record.upstream,
        "stream": record.stream,
        "status": record.status,
        "end": record.reason,
        "duration_s": round(record.duration_s, 4),
    }
    if record.client:
        line["client"] = record.client
    figures = {"input_tokens": record.input_tokens, "output_tokens": record.output_tokens}
    line.update({name: figure for name, figure in figures.items() if record.stream or figure is not None})
    if record.cost_usd is not None:
        line["cost_usd"] = round(record.cost_usd, 6)
    if record.resume:
        line["resume"] = record.resume
    if record.followers_left:
        line["clients_left"] = record.followers_left
    if not record.stream:
        return line
    for name, seconds in (("upstream_first_s", record.upstream_first_s), ("first_token_s", record.first_token_s)):
        line[name] = None if seconds is None else round(seconds, 4)
    for side, meter in (("in", record.arrived), ("out", record.delivered)):
        if meter is not None:
            line[f"clusters_{side}"] = sum(meter.clusters)
            line[f"peak_tokens_{side}"] = round(meter.peak_tokens, 1)
            line[f"longest_gap_s_{side}"] = round(meter.longest_gap_s, 3)
            line[f"tokens_{side}"] = round(meter.tokens, 1)
    if record.shed_tokens:
        line["shed_tokens"] = round(record.shed_tokens, 1)
    if record.remarks:
        line["remarks"] = ",".join(record.remarks)
    line["heartbeats"] = record.heartbeats_before + record.heartbeats_during
    return line
