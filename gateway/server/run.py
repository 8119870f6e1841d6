"""The server process: uvicorn with the gateway in it, from start to the last stream after SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from types import FrameType
from typing import Any, Final

import uvicorn

from gateway import logs
from gateway.server.app import application
from gateway.server.gateway import Gateway
from gateway.server.protocol import Protocol
from gateway.settings import Settings

LOG: Final = logging.getLogger("decluster")
# A burst makes thousands of objects that live for a second and hold no cycles: to look for garbage at each 700 costs a fifth of decoding.
GC_THRESHOLD: Final = (20_000, 10, 10)
LAST_WORDS_S: Final = 5.0  # after the grace, for the error events of the streams that outlast it


class Server(uvicorn.Server):
    """uvicorn's server that lets streams finish: no new ones, the grace, an honest error, then the end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.gateway: Gateway | None = None
        listen = settings.listen
        config = uvicorn.Config(
            self._app,
            host=listen.host,
            port=listen.port,
            loop="auto",
            interface="asgi3",
            http=Protocol,
            ws="none",  # an upgrade is answered 426 by the app
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,  # the upstream's own go through
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(listen.keep_alive),
            timeout_graceful_shutdown=int(settings.shutdown.grace + LAST_WORDS_S),
            backlog=4096,
        )
        super().__init__(config)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        await self._application(scope, receive, send)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.gateway = Gateway(self._settings, asyncio.get_running_loop())
        self._application = application(self.gateway)
        await super().startup(sockets)
        if self.started:
            gc.collect()
            gc.freeze()  # what lives for ever is not walked again: 11 ms of pause at 2,000 streams
            gc.set_threshold(*GC_THRESHOLD)
            for server in self.servers:
                for listener in server.sockets:
                    host, port = listener.getsockname()[:2]
                    shown = f"[{host}]" if ":" in host else host
                    LOG.info("listening", extra={"url": f"http://{shown}:{port}/v1", "upstream": self._settings.upstreams[0].name})

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal lets streams finish; the second ends at once, whichever it is."""
        self.force_exit = self.should_exit
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        gateway = self.gateway
        if gateway is None:
            await super().shutdown(sockets)
            return
        if gateway.exchanges:
            LOG.info("draining", extra={"streams": len(gateway.exchanges), "grace_s": self._settings.shutdown.grace})
        draining = asyncio.get_running_loop().create_task(gateway.drain(self._settings.shutdown.grace))
        await super().shutdown(sockets)
        draining.cancel()
        await gateway.close()


def bound(host: str, port: int) -> socket.socket:
    """A socket at the first address that the host's name stands for. OSError if that cannot be had."""
    family, kind, protocol, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    listener.set_inheritable(True)  # for workers
    return listener


def run(settings: Settings) -> int:
    """Serve until SIGTERM or Ctrl-C. Returns the exit code: 0, or 1 where it could not start. OSError where the address cannot be had."""
    logs.setup(settings.log.level, settings.log.format)
    listener = bound(settings.listen.host, settings.listen.port)
    server = Server(settings)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        return 130 if server.force_exit else 0
    return 0 if server.started else 1
