"""How much is asked in a minute, and how much is spent in a day: counted by the `limits` library, in memory or in Redis.

A minute is a sliding window: the share of the last minute's window that is still within it, and the running one. Tokens are known when an
answer is over, so a request is weighed by its prompt, and what it really took is counted afterwards; what is above the limit then is owed.

Invariant: a Redis that is not to be had stops nobody; it is told once and the counting goes on without it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

if TYPE_CHECKING:  # imported with the first limit: half a tenth of a second that most gateways need not spend
    from limits import RateLimitItem
    from limits.aio.storage import Storage

T = TypeVar("T")
LOG: Final = logging.getLogger("decluster")
STORE_S: Final = 1.0  # Redis answers in a millisecond or it is not there: the first token waits for it
MICRO: Final = 1_000_000  # spending is counted in whole millionths of a dollar
_AMOUNT_AT_MOST: Final = 2**53
_PREFIX: Final = "decluster"
_DEBTORS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Window:
    """A limit: so many of `unit` a minute, of whom or what `key` names."""

    key: str
    unit: Literal["requests", "tokens"]
    amount: int


@dataclass(frozen=True, slots=True)
class Exceeded:
    """remaining: of the limit. reset_s: until there is room again, at least a second."""

    window: Window
    remaining: int
    reset_s: float

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """As OpenAI names them, which SDKs and agents read."""
        unit = self.window.unit.encode()
        seconds = max(1, math.ceil(self.reset_s))
        return (
            (b"retry-after", b"%d" % seconds),
            (b"x-ratelimit-limit-" + unit, b"%d" % self.window.amount),
            (b"x-ratelimit-remaining-" + unit, b"%d" % max(0, self.remaining)),
            (b"x-ratelimit-reset-" + unit, b"%ds" % seconds),
        )


class Rates:
    """`redis`: the URL of a Redis or Valkey; None counts in memory."""

    def __init__(self, redis: str | None) -> None:
        from limits.aio.storage import MemoryStorage, RedisStorage
        from limits.aio.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter

        self._storage: Storage
        if redis is None:
            self._storage = MemoryStorage()
        else:
            options: dict[str, Any] = {"socket_timeout": STORE_S, "socket_connect_timeout": STORE_S}
            self._storage = RedisStorage("async+" + redis, implementation="redispy", key_prefix=_PREFIX, **options)
        self._sliding = SlidingWindowCounterRateLimiter(self._storage)
        self._fixed = FixedWindowRateLimiter(self._storage)
        self._running: dict[str, int] = {}  # tokens of prompts whose answers are in the making, by window
        self._owed: dict[str, int] = {}  # tokens above a limit, not yet counted
        self._store_failed = False

    async def close(self) -> None:
        bridge = getattr(self._storage, "bridge", None)
        if bridge is not None:
            await bridge.get_connection().aclose()

    async def take(self, windows: list[Window], tokens: int) -> Exceeded | None:
        """One more request of so many tokens. The first limit that it would exceed, or None; then `done` follows when it is over."""
        for window in windows:
            if not await self._has_room(window, tokens):
                stats = await self._safely(self._sliding.get_window_stats(_item(window), window.key), None)
                remaining, reset_s = (0, 1.0) if stats is None else (int(stats.remaining), stats.reset_time - time.time())
                return Exceeded(window, 0 if window.unit == "requests" else remaining, max(1.0, reset_s))
        for window in windows:
            if window.unit == "tokens":
                self._running[window.key] = self._running.get(window.key, 0) + tokens
        return None

    async def done(self, windows: list[Window], reserved: int, tokens: int) -> None:
        """A request that was let in is over, and has taken so many tokens."""
        for window in windows:
            if window.unit == "tokens":
                left = self._running.get(window.key, 0) - reserved
                if left > 0:
                    self._running[window.key] = left
                else:
                    self._running.pop(window.key, None)
                self._owed[window.key] = self._owed.get(window.key, 0) + tokens
                await self._pay(window)

    async def _has_room(self, window: Window, tokens: int) -> bool:
        if window.unit == "requests":
            return await self._safely(self._sliding.hit(_item(window), window.key), True)
        if window.key in self._owed:
            await self._pay(window)
            if window.key in self._owed:
                return False
        # a prompt that is larger than the whole limit passes where nothing else was asked
        cost = min(tokens, window.amount) + self._running.get(window.key, 0)
        return await self._safely(self._sliding.test(_item(window), window.key, cost=max(1, cost)), True)

    async def _pay(self, window: Window) -> None:
        """Count what is owed, as far as the limit reaches."""
        owed = self._owed.pop(window.key, 0)
        stats = await self._safely(self._sliding.get_window_stats(_item(window), window.key), None)
        paid = owed if stats is None else min(owed, max(0, int(stats.remaining)))
        if paid and stats is not None and not await self._safely(self._sliding.hit(_item(window), window.key, cost=paid), True):
            paid = 0  # another one came first
        if owed > paid:
            self._owed[window.key] = self._owed.get(window.key, 0) + owed - paid
            while len(self._owed) > _DEBTORS:  # keys that came once and owe for ever
                del self._owed[next(iter(self._owed))]

    # Money

    async def spend(self, client: str, day: str, usd: float) -> None:
        await self._safely(self._fixed.hit(_day(), "usd", client, day, cost=round(usd * MICRO)), True)

    async def spent_usd(self, client: str, day: str) -> float | None:
        """None where it cannot be told now."""
        stats = await self._safely(self._fixed.get_window_stats(_day(), "usd", client, day), None)
        return None if stats is None else (_AMOUNT_AT_MOST - stats.remaining) / MICRO

    async def _safely(self, asked: Awaitable[T], otherwise: T) -> T:
        try:
            async with asyncio.timeout(STORE_S):
                answer = await asked
        except Exception as error:  # whatever the store's client raises; it says nothing of keys
            if not self._store_failed:
                self._store_failed = True
                LOG.warning("limits cannot be counted: the Redis of admission.redis fails", extra={"error": type(error).__name__})
            return otherwise
        self._store_failed = False
        return answer


def _item(window: Window) -> RateLimitItem:
    from limits import RateLimitItemPerMinute

    return RateLimitItemPerMinute(window.amount, namespace=window.unit)


def _day() -> RateLimitItem:
    """An amount that nobody reaches: the budget is compared by whoever asks, the day is part of the key, and two days keep all of it."""
    from limits import RateLimitItemPerDay

    return RateLimitItemPerDay(_AMOUNT_AT_MOST, 2, namespace="spent")
