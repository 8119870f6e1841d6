"""Who is let in: the client's key, what it may ask a minute, what it may spend, and how many answers are made at once.

In this order, cheapest first; each refusal is a status, before anything was asked of an upstream. What costs nothing to a gateway without
limits: nothing is imported, counted or waited for that was not asked for in the configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from gateway.errors import Failure
from gateway.server.asking import ClientGone, Refused
from gateway.server.gate import Gate
from gateway.server.rates import Rates, Window
from gateway.settings import Client, Settings

if TYPE_CHECKING:
    from gateway.server.call import Call


class Place:
    """A request that was let in: `leave` when its answer is over, `count` when its tokens are known. Each acts once."""

    __slots__ = ("_admission", "_reserved", "_who", "_windows")

    def __init__(self, admission: Admission, who: str | None, windows: list[Window], reserved: int) -> None:
        self._admission = admission
        self._who = who
        self._windows = windows
        self._reserved = reserved

    @property
    def counts(self) -> bool:
        """Whether anybody wants to know its tokens."""
        return any(window.unit == "tokens" for window in self._windows)

    def leave(self) -> None:
        who, self._who = self._who, None
        if who is not None:
            self._admission.gate.leave(who)

    async def count(self, tokens: int) -> None:
        windows, self._windows = self._windows, []
        if windows and self._admission.rates is not None:
            await self._admission.rates.done(windows, self._reserved, tokens)


class Admission:
    """gate: answers in the making. rates: None where nothing is counted."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings.admission
        self._loop = loop
        wait_s = min(self._settings.wait, settings.heartbeat.every)  # who waits gets no sign of life
        self.gate = Gate(loop, self._settings.concurrent, self._settings.waiting, wait_s)
        self.rates = Rates(settings.admission.redis) if _counts(settings) else None
        self._weighs = any(
            limit is not None
            for limit in (
                self._settings.tokens_per_minute,
                *(client.tokens_per_minute for client in settings.clients),
                *(rule.tokens_per_minute for rule in self._settings.models),
            )
        )

    @property
    def weighs(self) -> bool:
        """Whether anybody's tokens are counted, so that a prompt's size is wanted."""
        return self._weighs

    async def admit_request(self, client: Client | None, who: str) -> None:
        """A request whose body is not looked into."""
        await self._take(self._windows(client, who, None, requests_only=True), 0)

    async def admit(self, call: Call, client: Client | None, who: str, tokens: int) -> Place:
        """A request for an answer. `tokens`: of its prompt. Refused, or ClientGone while it waits for its turn."""
        windows = self._windows(client, who, call.ask.model)
        await self._take(windows, tokens)
        most = self._settings.concurrent_per_client
        if client is not None and client.concurrent is not None:
            most = client.concurrent
        try:
            if not self.gate.enter(who, most):
                await self._while_there(call, self.gate.wait(who, most))
        except BaseException:
            await Place(self, None, windows, tokens).count(0)
            raise
        return Place(self, who, windows, tokens)

    def close(self, failure: Failure) -> None:
        """Those who wait for a turn are refused."""
        self.gate.close(failure)

    async def aclose(self) -> None:
        if self.rates is not None:
            await self.rates.close()

    async def _take(self, windows: list[Window], tokens: int) -> None:
        if not windows or self.rates is None:
            return
        exceeded = await self.rates.take(windows, tokens)
        if exceeded is None:
            return
        window = exceeded.window
        whose = "for this model" if window.key.startswith("models/") else "for this key"
        raise Refused(
            Failure(
                "rate_limited",
                f"{window.amount} {window.unit} a minute are allowed {whose}, and they are used up. Ask again after retry-after.",
                headers=exceeded.headers,
            )
        )

    def _windows(self, client: Client | None, who: str, model: str | None, requests_only: bool = False) -> list[Window]:
        if self.rates is None:
            return []
        found: list[Window] = []
        for own, shared, unit in (
            (client.requests_per_minute if client else None, self._settings.requests_per_minute, "requests"),
            (client.tokens_per_minute if client else None, self._settings.tokens_per_minute, "tokens"),
        ):
            amount = shared if own is None else own
            if amount is not None:
                found.append(Window(f"clients/{who}/{unit}", "requests" if unit == "requests" else "tokens", amount))
        for rule in self._settings.models:
            if model is None or not any(fnmatchcase(model, pattern) for pattern in rule.models):
                continue
            key = f"models/{','.join(rule.models)}" + (f"/{who}" if rule.per_client else "")
            if rule.requests_per_minute is not None:
                found.append(Window(f"{key}/requests", "requests", rule.requests_per_minute))
            if rule.tokens_per_minute is not None:
                found.append(Window(f"{key}/tokens", "tokens", rule.tokens_per_minute))
        return [window for window in found if window.unit == "requests"] if requests_only else found

    async def _while_there(self, call: Call, waiting: Coroutine[Any, Any, None]) -> None:
        turn = self._loop.create_task(waiting)
        left = self._loop.create_task(_left(call))
        try:
            await asyncio.wait({turn, left}, return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                raise ClientGone
            turn.result()
        finally:
            for task in (turn, left):
                task.cancel()
            await asyncio.gather(turn, left, return_exceptions=True)


async def _left(call: Call) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass


def _counts(settings: Settings) -> bool:
    admission = settings.admission
    limits = [admission.requests_per_minute, admission.tokens_per_minute]
    for rule in admission.models:
        limits += [rule.requests_per_minute, rule.tokens_per_minute]
    for client in settings.clients:
        limits += [client.requests_per_minute, client.tokens_per_minute]
    budgets = [client.budget_per_day for client in settings.clients]
    return any(limit is not None for limit in (*limits, *budgets))
