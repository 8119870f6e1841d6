"""What reads a response in the tests: a sink that writes down what it is told, and short ways to ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

import httpx

from gateway.upstream.body import Body
from gateway.upstream.transport import Transport

from .servers import SAFETY_S


class Recorder:
    """A sink. `log` has "data" and "end" in the order in which they were told."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.error: Exception | None = None
        self.log: list[str] = []
        self._told = asyncio.Event()

    def data(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.log.append("data")
        self._told.set()

    def end(self, error: Exception | None) -> None:
        self.error = error
        self.log.append("end")
        self._told.set()

    @property
    def bytes(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def ended(self) -> bool:
        return "end" in self.log

    async def until(self, count: int) -> None:
        """Until so many bytes have come."""
        async with asyncio.timeout(SAFETY_S):
            while len(self.bytes) < count:
                self._told.clear()
                await self._told.wait()

    async def until_end(self) -> None:
        async with asyncio.timeout(SAFETY_S):
            while not self.ended:
                self._told.clear()
                await self._told.wait()


class Pieces(httpx.AsyncByteStream):
    """A request's body that comes in pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


def body_of(response: httpx.Response) -> Body:
    assert isinstance(response.stream, Body)
    return response.stream


async def ask(transport: Transport, url: str, method: str = "POST", **more: object) -> httpx.Response:
    """A request with a safety net; by default a POST with a small body."""
    if method == "POST":
        more.setdefault("content", b"{}")
    request = httpx.Request(method, url, **more)  # type: ignore[arg-type]
    return await asyncio.wait_for(transport.handle_async_request(request), SAFETY_S)


async def read(response: httpx.Response) -> bytes:
    async with asyncio.timeout(SAFETY_S):
        return b"".join([piece async for piece in body_of(response)])


async def turns(count: int = 10) -> None:
    """Lets the loop turn, for what is to happen at once."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(fact: Callable[[], bool]) -> None:
    """Until a fact is true that nobody announces."""
    for _ in range(int(SAFETY_S * 1000)):
        if fact():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError
