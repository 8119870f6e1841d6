"""How long an answer that is no stream is waited for: a stream's slow clocks, counted by what there is to see of it.

`clocks.total` counts from the request; behind the answer's head `clocks.first_content` until its first bytes, `clocks.silence` from part to
part. What the bytes mean is not known here. Only waiting for the upstream counts: while a part is on its way to a client that is slow,
nothing rings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

import httpx

from gateway.errors import Failure
from gateway.settings import Clocks
from gateway.stream.clockwork import NEVER, Clockwork
from gateway.stream.endings import SILENT
from gateway.upstream.body import Body

Head = TypeVar("Head")


class Overdue(httpx.ReadTimeout):
    """A clock has rung while an answer's body was waited for. `failure`: which one."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Parts:
    """The body of an answer whose head has come, as `async for` reads it; raises Overdue. Who iterates closes the answer."""

    __slots__ = ("_body", "_clockwork", "_heard", "_loop", "_parts", "_says")

    def __init__(
        self,
        response: httpx.Response,
        loop: asyncio.AbstractEventLoop,
        clocks: Clocks,
        began: float,
        says: Callable[[bytes], bool] = bool,
    ) -> None:
        """`began`: the request, in loop time. `says`: whether a part is a sign of life."""
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # what an async transport gives
        self._body = response.stream if isinstance(response.stream, Body) else None  # which knows what is there
        self._parts = aiter(response.stream)
        self._loop = loop
        self._says = says
        self._clockwork = Clockwork(began, clocks, NEVER)
        self._clockwork.restart(loop.time())
        self._heard = False  # the part before said something

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        clockwork = self._clockwork
        if self._heard:
            clockwork.heard = self._loop.time()  # what has passed since was the client's
        if self._body is not None and self._body.ready:  # what is there already is given, however late it is, and needs no timer
            part = await anext(self._parts)
        else:
            at = clockwork.wakeup(wants_upstream=True)
            try:
                async with asyncio.timeout_at(None if at == NEVER else at):
                    part = await anext(self._parts)
            except TimeoutError:
                raise Overdue(clockwork.late(at) or SILENT) from None
        self._heard = self._says(part)
        if self._heard:
            clockwork.content_came()
        return part


async def in_time(head: Awaitable[Head], clocks: Clocks, began: float) -> Head | Failure:
    """The head of an answer, or that `clocks.total` was over before it came."""
    if clocks.total is None:
        return await head
    at = began + clocks.total
    try:
        async with asyncio.timeout_at(at):
            return await head
    except TimeoutError:
        late = Clockwork(began, clocks, NEVER).late(at)
        assert late is not None  # noqa: S101  # the total is over
        return late
