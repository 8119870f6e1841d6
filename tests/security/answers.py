"""An upstream that says exactly these bytes to each request."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass
class Saying:
    """answers: by turns, the last for ever. heads: of the requests. connections: how many were opened."""

    answers: list[bytes]
    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    links: list[_Link] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


class _Link(asyncio.Protocol):
    def __init__(self, state: Saying) -> None:
        self._state = state
        self._came = b""
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self._state.connections += 1
        self._state.links.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        state = self._state
        self._came += data
        while b"\r\n\r\n" in self._came:
            head, _, rest = self._came.partition(b"\r\n\r\n")
            found = _LENGTH.search(head)
            length = int(found[1]) if found else 0
            if len(rest) < length:
                return
            self._came = rest[length:]
            state.heads.append(head)
            self.transport.write(state.answers[min(len(state.heads), len(state.answers)) - 1])


@contextlib.asynccontextmanager
async def saying(*answers: bytes) -> AsyncIterator[Saying]:
    state = Saying([*answers])
    server = await asyncio.get_running_loop().create_server(lambda: _Link(state), "127.0.0.1", 0)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for link in state.links:
            link.transport.abort()
            await link.lost.wait()
