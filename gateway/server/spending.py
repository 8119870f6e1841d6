"""What answers cost, and the budgets that they may use up: a request's own, and what a client may spend in a day (UTC).

Owns the accounts of the day and the booking of what is over. A price that is not known yet is waited for only where a budget depends on it;
else the cost is booked when it comes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gateway.dialects.base import Usage
from gateway.errors import Failure
from gateway.metrics.metrics import Metrics
from gateway.metrics.record import Record
from gateway.policy.cost import Account, Price, Spending, cost_usd
from gateway.prices.book import Book, configured
from gateway.server.asking import Refused
from gateway.server.rates import MICRO, Rates
from gateway.settings import Client, Settings, Upstream

CLOSING_S: Final = 3.0  # for what is still to be booked when the gateway ends
_DAY_S: Final = 86_400
_NO_RETRY: Final = (b"x-should-retry", b"false")


def used_up(which: str, budget_usd: float) -> Failure:
    """`which`: "request" or "day"."""
    if which == "request":
        told = f"The budget of this request (x-budget-usd: {budget_usd:g}) is used up. Ask for less, or allow more."
    else:
        told = f"This key's budget of {budget_usd:g} USD a day is used up. It begins anew at midnight UTC."
    return Failure("budget_exceeded", told, headers=(_NO_RETRY,))


class Costs:
    """`rates`: where days are counted; None where no client has a budget. `clock`: Unix time."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics,
        rates: Rates | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings.cost
        self._loop = loop
        self._metrics = metrics
        self._rates = rates
        self._clock = clock
        self._accounts: dict[str, tuple[str, Account]] = {}  # by client, for its day
        self._tasks: set[asyncio.Task[None]] = set()
        self.book = Book(settings.cost, loop)

    # Before

    async def spending(
        self, client: Client | None, upstream: Upstream, model: str | None, input_tokens: int, most_usd: float | None
    ) -> Spending | None:
        """What keeps to the budgets while the answer comes; None where there are none. Refused where one is used up already."""
        budgeted = client is not None and client.budget_per_day is not None
        if not budgeted and most_usd is None:
            return None
        price = await self.price(upstream, model or "")
        if price is None:
            raise Refused(
                Failure(
                    "price_unknown",
                    "No price of this model is known here, so no budget can be kept. Name it in cost.prices, or ask without a budget.",
                    param="model",
                    headers=(_NO_RETRY,),
                )
            )
        account = await self._account(client) if client is not None and budgeted else None
        if account is not None and account.left_usd <= 0.0:
            reset_s = _DAY_S - int(self._clock()) % _DAY_S
            failure = used_up("day", account.budget_usd)
            raise Refused(Failure(failure.code, failure.message, headers=(_NO_RETRY, (b"retry-after", b"%d" % reset_s))))
        spending = Spending(price, input_tokens, most_usd, account)
        which = spending.spent(0.0)
        if which is not None:
            spending.over()
            raise Refused(used_up(which, most_usd or 0.0) if which == "request" or account is None else used_up(which, account.budget_usd))
        return spending

    async def price(self, upstream: Upstream, *models: str) -> Price | None:
        """Of the first of a model's names that has one; the configuration's word is above the catalogue's."""
        for model in models:
            price = configured(self._settings.prices, model)
            if price is not None:
                return price
        for model in models:
            price = await self.book.price(upstream, model)
            if price is not None:
                return price
        return None

    async def _account(self, client: Client) -> Account:
        day = self._day()
        kept = self._accounts.get(client.name)
        account = kept[1] if kept is not None and kept[0] == day else Account(client.budget_per_day or 0.0)
        self._accounts[client.name] = day, account
        if self._rates is not None:
            spent_usd = await self._rates.spent_usd(client.name, day)
            if spent_usd is not None:
                account.booked_usd = spent_usd
        return account

    # After

    def settle(self, record: Record, client: Client | None, upstream: Upstream, models: tuple[str, ...], usage: Usage) -> None:
        """An answer is over that took these tokens."""
        known = [self.book.known(upstream, model) for model in models]
        if all(is_known for is_known, _ in known):
            price = next((price for _, price in known if price is not None), None)
            self._book(record, client, price, usage)
        else:
            self.later(self._settle_later(record, client, upstream, models, usage))

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Done beside the request, whose answer is over."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """All that was begun is booked."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSING_S)
        for task in self._tasks:
            task.cancel()
        await self.book.close()

    async def _settle_later(self, record: Record, client: Client | None, upstream: Upstream, models: tuple[str, ...], usage: Usage) -> None:
        self._book(record, client, await self.price(upstream, *models), usage)

    def _book(self, record: Record, client: Client | None, price: Price | None, usage: Usage) -> None:
        if price is None:
            return
        usd = record.cost_usd = cost_usd(price, usage)
        self._metrics.cost.add((self._metrics.model(record.model),), usd)
        if client is None or client.budget_per_day is None or self._rates is None or round(usd * MICRO) <= 0:
            return
        day = self._day()
        kept = self._accounts.get(client.name)
        if kept is not None and kept[0] == day:
            kept[1].booked_usd += usd
        self.later(self._rates.spend(client.name, day, usd))

    def _day(self) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(self._clock()))
