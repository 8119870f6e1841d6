"""How many answers are made at once: in all, and for one client. Who finds no room waits for a while, first come, first served.

A waiting request is not seen by its client: no byte, so that it can still be refused with a status.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from gateway.errors import Failure
from gateway.server.asking import Refused


@dataclass(eq=False, slots=True)
class _Waiting:
    client: str
    most: int | None
    turn: asyncio.Future[None]


class Gate:
    """`most`: answers in all. `wait_s`, `waiting`: how long one may wait, and how many at once. None is no limit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int | None, waiting: int, wait_s: float) -> None:
        self._loop = loop
        self._most = most
        self._most_waiting = waiting
        self._wait_s = wait_s
        self._inside: dict[str, int] = {}
        self._total = 0
        self._waiting: OrderedDict[_Waiting, None] = OrderedDict()

    def enter(self, client: str, most: int | None) -> bool:
        """Whether there is room now, which is then taken. `most`: of this client's at once."""
        if not self._room(client, most) or any(self._could_pass(waiting) for waiting in self._waiting):
            return False
        self._count(client, 1)
        return True

    async def wait(self, client: str, most: int | None) -> None:
        """For a turn, which is then taken. Refused after a while, or at once where too many wait."""
        if len(self._waiting) >= self._most_waiting or not self._wait_s:
            raise self._refusal(client, most)
        waiting = _Waiting(client, most, self._loop.create_future())
        self._waiting[waiting] = None
        try:
            async with asyncio.timeout(self._wait_s):
                await waiting.turn
        except BaseException as error:
            self._waiting.pop(waiting, None)
            if waiting.turn.done() and not waiting.turn.cancelled() and waiting.turn.exception() is None:
                self.leave(client)  # its turn came in the very moment in which it gave up
            if isinstance(error, TimeoutError):
                raise self._refusal(client, most) from None
            raise

    def leave(self, client: str) -> None:
        """An answer is over: the first who may have its place gets it."""
        self._count(client, -1)
        for waiting in tuple(self._waiting):
            if self._could_pass(waiting):
                del self._waiting[waiting]
                self._count(waiting.client, 1)
                waiting.turn.set_result(None)
                return

    def close(self, failure: Failure) -> None:
        """Nobody gets in any more: those who wait are refused."""
        for waiting in tuple(self._waiting):
            if not waiting.turn.done():
                waiting.turn.set_exception(Refused(failure))
        self._waiting.clear()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _could_pass(self, waiting: _Waiting) -> bool:
        return not waiting.turn.done() and self._room(waiting.client, waiting.most)

    def _room(self, client: str, most: int | None) -> bool:
        return (self._most is None or self._total < self._most) and (most is None or self._inside.get(client, 0) < most)

    def _count(self, client: str, change: int) -> None:
        self._total += change
        inside = self._inside.get(client, 0) + change
        if inside:
            self._inside[client] = inside
        else:
            self._inside.pop(client, None)

    def _refusal(self, client: str, most: int | None) -> Refused:
        if most is not None and self._inside.get(client, 0) >= most:
            return Refused(
                Failure(
                    "concurrency_limited",
                    f"{most} answers for this key are in the making, which is all that it may have at once. Ask again when one is over.",
                    headers=((b"retry-after", b"1"),),
                )
            )
        return Refused(
            Failure(
                "overloaded",
                f"The gateway makes as many answers at once as it may ({self._most}). Ask again shortly.",
                headers=((b"retry-after", b"2"),),
            )
        )
