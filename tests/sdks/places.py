"""The same requests sent to two places at once: what the direct call gives is what the gateway has to give."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from .cases import AT_ONCE, HEADERS, Params

Headers = Mapping[str, str]
Ask = Callable[[str, Params, Headers], Any]
AskAsync = Callable[[str, Params, Headers], Awaitable[Any]]


@dataclass(frozen=True)
class Places:
    """Base URLs without /v1. run: runs a coroutine; all on one loop, since some libraries share connections among their clients."""

    direct: str
    gateway: str
    run: Callable[[Coroutine[Any, Any, Any]], Any]

    def both(self) -> list[tuple[str, Headers]]:
        return [(self.direct, AT_ONCE), (self.gateway, HEADERS)]


@dataclass(frozen=True)
class Pair:
    direct: Any
    gateway: Any


Pairs = dict[str, Pair]


def play(places: Places, cases: Mapping[str, Params], ask: Ask) -> Pairs:
    """All cases at both places, all at once in threads: what takes time is mostly the scenarios' own pauses."""
    with ThreadPoolExecutor(2 * len(cases)) as pool:
        running = {name: [pool.submit(ask, url, params, headers) for url, headers in places.both()] for name, params in cases.items()}
        return {name: Pair(*(future.result() for future in pair)) for name, pair in running.items()}


def play_async(places: Places, cases: Mapping[str, Params], ask: AskAsync) -> Pairs:
    async def pair(params: Params) -> Pair:
        return Pair(*await asyncio.gather(*(ask(url, params, headers) for url, headers in places.both())))

    async def every() -> list[Pair]:
        return await asyncio.gather(*map(pair, cases.values()))

    return dict(zip(cases, places.run(every()), strict=True))
