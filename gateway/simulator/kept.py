"""Responses that were streamed once, kept so that `GET /v1/responses/{id}` can show them: whole, or event by event from any place on.

Owns the events of the latest of them and who follows one that is still being made. Knows nothing of HTTP and of what an event says: only
that their sequence numbers count from 0, one each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from gateway.simulator.encode import Json

_MOST: Final = 64  # responses kept: of 2,000 events, 500 KB each


class Kept:
    """One response. answer: makes the object as it is by now. over: no event follows."""

    def __init__(self, answer: Callable[[], Json]) -> None:
        self.answer = answer
        self.over = False
        self._events: list[bytes] = []
        self._changed = asyncio.Event()

    def add(self, data: bytes) -> None:
        """Whole events."""
        self._events += [event + b"\n\n" for event in data.split(b"\n\n") if event]
        self._wake()

    def finish(self) -> None:
        self.over = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(self, after: int) -> AsyncIterator[bytes]:
        """The events whose number is above `after`: those that are there in one piece, then each as it comes."""
        place = after + 1
        while True:
            if place < len(self._events):
                found = self._events[place:]
                place = len(self._events)
                yield b"".join(found)
            elif self.over:
                return
            else:
                await self._changed.wait()


class Shelf:
    """The latest responses by their id."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    def keep(self, name: str, answer: Callable[[], Json]) -> Kept:
        if len(self._kept) >= _MOST:
            del self._kept[next(iter(self._kept))]
        made = self._kept[name] = Kept(answer)
        return made

    def find(self, name: str) -> Kept | None:
        return self._kept.get(name)
