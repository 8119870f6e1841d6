"""The real gateway in this process: uvicorn, the application and our own transport, on a free port, without signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from gateway.server.gateway import Gateway
from gateway.server.run import Server
from gateway.settings import (
    Admission,
    Clocks,
    Cost,
    Heartbeat,
    Limits,
    Listen,
    Pacing,
    Resume,
    Retry,
    Settings,
    Shutdown,
    Tripping,
    Upstream,
)
from support.upstream import SAFETY_S

_PARTS = {"pacing": Pacing, "heartbeat": Heartbeat, "clocks": Clocks, "limits": Limits, "shutdown": Shutdown, "resume": Resume}
_PARTS |= {"retry": Retry, "breaker": Tripping, "admission": Admission, "cost": Cost}


def settings_for(url: str, **changes: Any) -> Settings:
    """Defaults with one upstream. `clocks={"silence": 1}` changes one part, `upstream={...}` the upstream itself.

    One attempt, unless `retry` says more: most tests are of what comes of one. No catalogue of prices, which is a process of its own.
    """
    changes.setdefault("retry", {"attempts": 1})
    changes.setdefault("cost", {"catalogue": False})
    if isinstance(limits := changes.setdefault("admission", {}), dict):
        limits.setdefault("late", None)  # how busy the machine is says nothing about the gateway
    upstream = replace(Upstream("scripted", url, models=("m-test",)), **changes.pop("upstream", {}))
    parts = {name: _PARTS[name](**values) if isinstance(values, dict) else values for name, values in changes.items()}
    return Settings((upstream,), listen=Listen(port=0), **parts)


class Running:
    """A gateway that serves. port: where."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.port: int = server.servers[0].sockets[0].getsockname()[1]

    @property
    def gateway(self) -> Gateway:
        assert self.server.gateway is not None
        return self.server.gateway

    def metric(self, name: str, **labels: str) -> float:
        """A sample of /metrics as it stands, 0 where there is none."""
        samples = (sample for family in self.gateway.metrics.registry.collect() for sample in family.samples if sample.name == name)
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    async def idle(self) -> None:
        """Wait until every request has been booked."""
        async with asyncio.timeout(SAFETY_S):
            while self.server.server_state.tasks:
                await asyncio.wait(self.server.server_state.tasks)

    async def shut_down(self) -> None:
        """What SIGTERM does, from where uvicorn has noticed it."""
        await self.server.shutdown()


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Running]:
    """uvicorn's own main loop and shutdown look every 100 ms whether they may end; here they are stepped by hand."""
    server = Server(settings)
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()
    running = Running(server)
    try:
        yield running
    finally:
        for listener in server.servers:
            listener.close()
        for connection in tuple(server.server_state.connections):
            connection.transport.close()
        tasks = tuple(server.server_state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=SAFETY_S)
            assert not late, "a request goes on although its client has gone"
        await running.gateway.desk.close()
        assert not running.gateway.exchanges
        await running.gateway.close()
