"""The server process: uvicorn with the gateway in it, from start to the last stream after SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any, Final

import uvicorn

from gateway import logs
from gateway.config import ConfigError
from gateway.metrics.shared import WRITE_S, Shared
from gateway.server.app import application
from gateway.server.descriptors import raise_limit, room_for
from gateway.server.gateway import Gateway
from gateway.server.incoming import Bounds, bounded
from gateway.server.protocol import Protocol
from gateway.server.reloading import adopt
from gateway.server.workers import Supervisor, Worker, alone, command_of, divided
from gateway.settings import Settings

Reload = Callable[[], Settings]

LOG: Final = logging.getLogger("decluster")
# A burst makes thousands of objects that live for a second and hold no cycles: to look for garbage at each 700 costs a fifth of decoding.
GC_THRESHOLD: Final = (20_000, 10, 10)
LAST_WORDS_S: Final = 5.0  # after the grace, for the error events of the streams that outlast it


class Server(uvicorn.Server):
    """uvicorn's server that lets streams finish: no new ones, the grace, an honest error, then the end."""

    def __init__(self, settings: Settings, worker: Worker | None = None, reload: Reload | None = None) -> None:
        """`worker`: its place among several. `reload`: reads the configuration anew; ConfigError where it is wrong."""
        self._settings = settings
        self._worker = worker
        self._reload = reload
        self._parent = os.getppid()
        self._sharing: asyncio.TimerHandle | None = None
        self.gateway: Gateway | None = None
        listen = settings.listen
        config = uvicorn.Config(
            self._app,
            host=listen.host,
            port=listen.port,
            loop="auto",
            interface="asgi3",
            http=bounded(Protocol, Bounds(replace(listen, connections=room_for(listen.connections)), self._stall_s)),
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

    def _stall_s(self) -> float | None:
        """As the configuration has it now."""
        return (self._settings if self.gateway is None else self.gateway.settings).clocks.client_stall

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        await self._application(scope, receive, send)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.gateway = Gateway(self._settings, asyncio.get_running_loop())
        self._application = application(self.gateway)
        if self._worker is not None:
            self.gateway.metrics.shared = Shared(self._worker.folder)
            self._share()
        if self._reload is not None:
            self.gateway.reload = self.reload if self._worker is None else self._reload_all
            with contextlib.suppress(NotImplementedError, ValueError):  # not on Windows, not in another thread than the first
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)
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

    def reload(self) -> str | None:
        """Read the configuration anew: a good one holds for new streams, a bad one changes nothing. What is wrong with it, if anything."""
        assert self.gateway is not None and self._reload is not None  # noqa: S101, PT018 - asked for only while it serves
        try:
            settings = self._reload()
            held = adopt(self.gateway, settings if self._worker is None else divided(settings, self._worker.count))
        except (ConfigError, OSError) as error:
            LOG.warning("the configuration is wrong, so nothing has changed", extra={"problem": str(error)})
            return str(error)
        LOG.info("the configuration was read anew", extra={"takes_a_restart": ", ".join(held)} if held else {})
        return None

    def _reload_all(self) -> str | None:
        """As `reload`, of one worker of several: the supervisor has all of them do it."""
        assert self._reload is not None  # noqa: S101 - set only where there is one
        try:
            self._reload()
        except (ConfigError, OSError) as error:
            return str(error)
        os.kill(os.getppid(), signal.SIGHUP)
        return None

    def _share(self) -> None:
        """Every second, for whichever worker is scraped; and see that somebody still keeps this worker."""
        if os.getppid() != self._parent:
            LOG.error("the supervisor is gone, so this worker ends")
            self.should_exit = True
        assert self.gateway is not None  # noqa: S101
        with contextlib.suppress(OSError):  # a full disk: the next time, perhaps
            self.gateway.metrics.share()
        self._sharing = asyncio.get_running_loop().call_later(WRITE_S, self._share)

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
        if not self.force_exit:
            await gateway.desk.drained()  # streams whose clients can come back elsewhere
        draining.cancel()
        await gateway.close()
        if self._sharing is not None:
            self._sharing.cancel()
            with contextlib.suppress(OSError):
                gateway.metrics.share()


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
    return listener


def run(settings: Settings, reload: Reload | None = None, worker: Worker | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C. Returns the exit code: 0, or 1 where it could not start. OSError where the address cannot be had."""
    logs.setup(settings.log.level, settings.log.format)
    raise_limit(settings.listen.connections)
    listener = bound(settings.listen.host, settings.listen.port) if worker is None else socket.socket(fileno=worker.fd)
    listener.set_inheritable(False)  # else what this process starts keeps the port open after it was closed here
    server = Server(settings if worker is None else divided(settings, worker.count), worker, reload)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        return 130 if server.force_exit else 0
    return 0 if server.started else 1


def supervise(settings: Settings, workers: int, argv: Sequence[str], reload: Reload | None) -> int:
    """Several workers behind one socket, each started by the same command. As `run`."""
    logs.setup(settings.log.level, settings.log.format)
    listener = bound(settings.listen.host, settings.listen.port)
    for line in alone(settings):
        LOG.warning(line)

    def problem() -> str | None:
        try:
            if reload is None:
                return "there is no configuration file"
            reload()
        except (ConfigError, OSError) as error:
            return str(error)
        return None

    return Supervisor(listener, workers, command_of(argv), problem, settings.shutdown.grace + LAST_WORDS_S + 5.0).run()
