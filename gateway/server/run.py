"""The server process: uvicorn with the gateway in it, from start to the last stream after SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from typing import Any, Final

import uvicorn

from gateway import logs
from gateway.server.app import application
from gateway.server.gateway import Gateway
from gateway.settings import Settings

LOG: Final = logging.getLogger("decluster")
# A burst makes thousands of objects that live for a second and hold no cycles: to look for garbage at each 700 costs a fifth of decoding.
GC_THRESHOLD: Final = (50_000, 20, 50)
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
            http="httptools",
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


def run(settings: Settings) -> int:
    """Serve until SIGTERM or Ctrl-C. Returns the exit code: 0, or 1 where the port could not be had."""
    logs.setup(settings.log.level, settings.log.format)
    server = Server(settings)
    try:
        server.run()
    except KeyboardInterrupt:
        return 130 if server.force_exit else 0
    return 0 if server.started else 1
