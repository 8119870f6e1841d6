"""The price of a model, for a process that serves: from the configuration, else from the catalogue's process, remembered.

Owns that process: it is started with the first question, lives while questions come, and dies with its input, so with the gateway too.
Nothing here waits in the way of a stream: who cannot wait asks `known`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import OrderedDict
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from gateway.policy.cost import Price
from gateway.settings import Cost, ModelPrice, Upstream

LOG: Final = logging.getLogger("decluster")
FRESH_S: Final = 3600.0  # some prices change with the time of day
ANSWER_S: Final = 20.0  # its start takes half a second
IDLE_S: Final = 60.0  # then the process is let go: it holds 60 MB
REMEMBERED: Final = 1024
_NAME_CHARS: Final = 200
# What the process needs to start. It has no use for anybody's keys.
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "HOME", "LANG", "SYSTEMROOT")


class Unpriced(Exception):
    """The catalogue could not be asked."""


def configured(prices: tuple[ModelPrice, ...], model: str) -> Price | None:
    """What the configuration says of a model; the first entry that names it counts."""
    for entry in prices:
        if any(fnmatchcase(model, pattern) for pattern in entry.models):
            read, write = entry.cache_read, entry.cache_write
            return Price(
                ((0, entry.input),),
                ((0, entry.output),),
                None if read is None else ((0, read),),
                None if write is None else ((0, write),),
                source="configuration",
            )
    return None


def priced(answer: dict[str, Any] | None) -> Price | None:
    """From the catalogue's answer."""
    if answer is None:
        return None
    rates = {name: tuple((above, usd) for above, usd in steps) for name, steps in answer.items() if name != "source"}
    return Price(**rates, source=answer["source"])


class Book:
    """`known` now, or `price` when it can be waited for."""

    def __init__(self, cost: Cost, loop: asyncio.AbstractEventLoop) -> None:
        self._cost = cost
        self._loop = loop
        self._found: OrderedDict[tuple[str, str], tuple[Price | None, float]] = OrderedDict()
        self._process: asyncio.subprocess.Process | None = None
        self._asking = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self._complained = False

    def known(self, upstream: Upstream, model: str) -> tuple[bool, Price | None]:
        """Whether it is known what is known of it; and the price, None where there is none."""
        price = configured(self._cost.prices, model)
        if price is not None or not self._cost.catalogue or len(model) > _NAME_CHARS:
            return True, price
        found = self._found.get((upstream.name, model))
        return (False, None) if found is None or found[1] < self._loop.time() else (True, found[0])

    async def price(self, upstream: Upstream, model: str) -> Price | None:
        """None where nobody knows a price."""
        known, price = self.known(upstream, model)
        if known:
            return price
        async with self._asking:
            known, price = self.known(upstream, model)  # by now somebody else may have asked
            if known:
                return price
            fresh_s = FRESH_S
            try:
                async with asyncio.timeout(ANSWER_S):
                    price = priced(await self._ask({"url": upstream.base_url, "provider": upstream.provider, "model": model}))
            except (TimeoutError, OSError, Unpriced, msgspec.MsgspecError, TypeError, KeyError, ValueError):
                await self._let_go()
                fresh_s = IDLE_S
                if not self._complained:
                    self._complained = True
                    LOG.warning("the catalogue of prices cannot be asked: costs are only known for models in cost.prices")
            self._found[upstream.name, model] = price, self._loop.time() + fresh_s
            if len(self._found) > REMEMBERED:
                self._found.popitem(last=False)
            return price

    async def close(self) -> None:
        async with self._asking:
            await self._let_go()

    async def _ask(self, question: dict[str, str]) -> dict[str, Any] | None:
        if self._idle is not None:
            self._idle.cancel()
        if self._process is None or self._process.returncode is not None:
            environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gateway.prices.catalogue"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # a terminal's Ctrl-C is the gateway's to act on
            )
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018  # both were asked for
        self._process.stdin.write(msgspec.json.encode(question) + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise Unpriced
        self._idle = self._loop.call_later(IDLE_S, self._end_input)
        return msgspec.json.decode(line, type=dict[str, Any] | None)

    def _end_input(self) -> None:
        if self._process is not None and self._process.stdin is not None and not self._asking.locked():
            self._process.stdin.close()
            self._process = None

    async def _let_go(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            if process.stdin is not None:
                process.stdin.close()
            process.kill()
            await process.wait()
