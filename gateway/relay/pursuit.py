"""The attempts of one exchange: the task that is on its way to an answer, the body of the one that came, and what replaces it if it fails.

Owns what is to be let go of when an attempt is given up: its task, its socket. Must not know of pacing or the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import httpx

from gateway.dialects.base import Dialect
from gateway.dialects.seams import Seam
from gateway.errors import Failure
from gateway.relay.failures import in_the_answer
from gateway.relay.intake import Intake, unreadable
from gateway.relay.tap import Tap
from gateway.relay.tries import Tries
from gateway.stream import MendableStream, Stream
from gateway.wire.coding import CodingError

_CLOCKS: Final = ("upstream_first_content_timeout", "upstream_silent")
Mending = Callable[[], tuple[Seam, bytes] | None]


class Pursuer(Protocol):
    """Whose attempts they are: told what came, in the turn in which it did."""

    stream: Stream

    async def answered(self, response: httpx.Response | Failure) -> None:
        """The head of an attempt's answer, in that attempt's task."""

    def arrived(self, data: bytes) -> None:
        """Bytes of the answer's event stream."""

    def ended(self, failure: Failure | None) -> None:
        """Its end: properly, or by a failure."""

    def failed(self, failure: Failure) -> None:
        """It turned out to be no event stream."""

    def crashed(self, error: BaseException) -> None:
        """A fault of ours."""


class Pursuit:
    """`renewed`: gives the dialect of a further attempt. `mending`: aims the tries at who goes on with a stream that died."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tries: Tries,
        pursuer: Pursuer,
        event_bytes: int,
        renewed: Callable[[], Dialect],
        mending: Mending | None = None,
    ) -> None:
        self.tries = tries
        self._loop = loop
        self._pursuer = pursuer
        self._event_bytes = event_bytes
        self._renewed = renewed
        self._mending = mending
        self._task: asyncio.Task[None] | None = None
        self._intake: Intake | None = None
        self.tap = Tap(loop, self)

    def begin(self, response: httpx.Response | None = None) -> None:
        """`response`: the first, where it is there already."""
        self._task = self._loop.create_task(self._pursue(response))
        self._task.add_done_callback(self._pursued)

    async def _pursue(self, response: httpx.Response | None) -> None:
        await self._pursuer.answered(await self.tries.head(self._renew) if response is None else response)

    def _renew(self) -> None:
        self._pursuer.stream.restart(self._loop.time(), self._renewed())

    def take(self, response: httpx.Response) -> None:
        """Its body is the stream's, or is found not to be."""
        try:
            self._intake = Intake(response, self._pursuer.stream.dialect, self._event_bytes)
        except CodingError as error:
            self._pursuer.failed(unreadable(error))
            return
        self.tap.open(response)

    # A sink

    def data(self, chunk: bytes) -> None:
        try:  # there is nobody above who could be told of a fault
            intake = self._intake
            if intake is None or intake.transparent:
                self._pursuer.arrived(chunk)
                return
            fed = intake.feed(chunk)
            if isinstance(fed, Failure):
                self._pursuer.failed(fed)
            else:
                self._pursuer.arrived(fed)
        except Exception as error:
            self._pursuer.crashed(error)

    def end(self, error: Exception | None) -> None:
        try:
            if self._intake is not None and error is None:
                rest = self._intake.finish()
                if isinstance(rest, Failure):
                    self._pursuer.failed(rest)
                    return
                self._pursuer.stream.receive(self._loop.time(), rest)
            self._pursuer.ended(None if error is None else in_the_answer(error))
        except Exception as fault:
            self._pursuer.crashed(fault)

    # What follows

    def tried_again(self, failure: Failure) -> bool:
        """Whether another attempt takes the place of the one that failed before any content."""
        if self.tries.waiting and failure.code in _CLOCKS:  # of an attempt that is not made yet
            self._renew()
            return True
        if not self.tries.judge(failure):
            return False
        self._renew()
        self._again()
        return True

    def mended(self, now: float) -> bool:
        """Whether somebody goes on with a stream that died in the middle; else its failure is told."""
        stream = self._pursuer.stream
        if not isinstance(stream, MendableStream):
            return False
        self.tries.over(stream.failure)
        seam = None if self._mending is None else self._mending()
        if seam is None:
            stream.give_up(now)
            return False
        stream.mend(now, *seam)
        self.tries.once = True
        self._again()
        return True

    def _again(self) -> None:
        """Give up the attempt that is on its way and begin the next."""
        self.tap.close()
        self._cancel()
        self._intake = None
        self.tap = Tap(self._loop, self)
        self.begin()

    def release(self, whole: bool) -> None:
        """Nothing more is wanted of the answer. The end of a whole one is waited for: then its connection can be used again."""
        if whole:
            self.tap.linger()
        else:
            self.tap.close()

    def stop(self) -> None:
        """Nothing more is wanted."""
        self._cancel()
        self.tap.close()

    def _cancel(self) -> None:
        if self._task is not None and not self._task.done() and self._task is not asyncio.current_task():
            self._task.cancel()

    def _pursued(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._pursuer.crashed(error)
