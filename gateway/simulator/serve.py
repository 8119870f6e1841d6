"""The embedded upstream on a socket: uvicorn's HTTP protocol on our own listening socket.

uvicorn's Server is left out, since it takes over signals and logging and needs 0.2 s to stop: here a program may hold several
servers, start them in microseconds and end them at once.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from gateway.simulator.app import Simulator
from gateway.simulator.exchange import RESET

_BACKLOG: Final = 4096  # connections of a load test that come at once
_KEEP_ALIVE_S: Final = 75  # as nginx, the usual front of such an API
_LINGER_NONE: Final = struct.pack("ii", 1, 0)  # a close sends RST


class _Protocol(HttpToolsProtocol):
    """Knows when its connection is lost, can reset it, and takes no new one once `closing` is set."""

    def __init__(self, config: Config, state: ServerState, closing: asyncio.Event) -> None:
        super().__init__(config, state, {})
        self.lost = asyncio.Event()
        self._closing = closing

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        if self._closing.is_set():  # accepted before the socket was closed, told to us after
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {RESET: {"now": self._reset}}

    def _reset(self) -> None:
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
        self.transport.abort()


@asynccontextmanager
async def serving(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serves on the running loop; yields the base URL without /v1. Port 0 takes a free one. On leaving, every connection is
    closed, also in mid-stream. Raises OSError where the address cannot be had."""
    config = Config(
        Simulator(),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
    )
    config.load()
    state, closing = ServerState(), asyncio.Event()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Protocol(config, state, closing), host, port, backlog=_BACKLOG)
    try:
        address: Any = server.sockets[0].getsockname()
        name = f"[{address[0]}]" if ":" in address[0] else address[0]
        yield f"http://{name}:{address[1]}"
    finally:
        closing.set()
        server.close()
        lasting = [connection for connection in state.connections if isinstance(connection, _Protocol)]
        for connection in lasting:
            connection.transport.abort()
        if state.tasks:  # each sees its client go, and ends
            await asyncio.wait(list(state.tasks))
        await asyncio.gather(*(connection.lost.wait() for connection in lasting))


async def _until_stopped(host: str, port: int) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # Windows: the runner turns Ctrl-C into a cancellation
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
    async with serving(host, port) as url:
        print(f"simulating an upstream at {url}/v1 (scenarios by model name: {url}/), Ctrl-C ends it", flush=True)
        await stop.wait()
    return 0


def run(host: str = "127.0.0.1", port: int = 9101) -> int:
    """Blocks until Ctrl-C or SIGTERM; the exit code. Raises OSError where the address cannot be had."""
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_until_stopped(host, port))
    return 0


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's loop, or where there is none (Windows) asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
