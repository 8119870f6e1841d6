"""What no relay on this event loop gets below: `python -m benchmarks.floor PORT UPSTREAM_PORT pass|frames`. Nothing is parsed.

pass: each read of the upstream's is one write to the client. frames: what comes at once is cut into five, one each 20 ms, from one timer.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

_SLOTS: Final = 4
_FRAME_S: Final = 0.020
_FRAMES: Final = 5
_BURST_BYTES: Final = 4000  # less is passed on at once


class Upstream(asyncio.Protocol):
    def __init__(self, client: Client, asked: bytes) -> None:
        self._client = client
        self._asked = asked

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self._asked)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._client.take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.transport.close()


class Client(asyncio.Protocol):
    """held: what is to leave, `step` bytes a frame."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self.held = b""
        self.step = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._floor.ask(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._floor.forget(self)

    def take(self, data: bytes) -> None:
        if not self._floor.frames or len(data) < _BURST_BYTES:
            self.transport.write(data)
            return
        self.held += data
        self.step = len(self.held) // _FRAMES + 1
        self._floor.hold(self)

    def frame(self) -> None:
        self.transport.write(self.held[: self.step])
        self.held = self.held[self.step :]


class Floor:
    def __init__(self, upstream: int, frames: bool) -> None:
        self.frames = frames
        self._upstream = upstream
        self._loop = asyncio.get_running_loop()
        self._asking: set[asyncio.Task[object]] = set()
        self._slots: list[set[Client]] = [set() for _ in range(_SLOTS)]
        self._at = 0
        if frames:
            self._turn()

    def ask(self, client: Client, asked: bytes) -> None:
        task = self._loop.create_task(self._loop.create_connection(lambda: Upstream(client, asked), "127.0.0.1", self._upstream))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def hold(self, client: Client) -> None:
        if not any(client in slot for slot in self._slots):
            min(self._slots, key=len).add(client)

    def forget(self, client: Client) -> None:
        for slot in self._slots:
            slot.discard(client)

    def _turn(self) -> None:
        self._at = (self._at + 1) % _SLOTS
        for client in tuple(self._slots[self._at]):
            client.frame()
            if not client.held:
                self._slots[self._at].discard(client)
        self._loop.call_later(_FRAME_S / _SLOTS, self._turn)


async def serve(port: int, upstream: int, mode: str) -> None:
    floor = Floor(upstream, mode == "frames")
    server = await asyncio.get_running_loop().create_server(lambda: Client(floor), "127.0.0.1", port, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
