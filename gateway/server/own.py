"""The gateway's own endpoints, as Starlette routes: alive, ready, metrics."""

from __future__ import annotations

import asyncio

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gateway import __version__
from gateway.server.gateway import Gateway
from gateway.server.upstreaming import request_for

READY_FOR_S = 5.0  # an answer is good for so long: probes come every few seconds from several sides
PROBE_S = 3.0  # Kubernetes' probes wait 1 s by default, load balancers 5


class Own:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._asked_at = float("-inf")
        self._problem: str | None = None
        self._asking: asyncio.Task[str | None] | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
            Route("/", self.root),
        ]

    async def healthz(self, request: Request) -> Response:
        return JSONResponse({"status": "alive", "version": __version__})

    async def readyz(self, request: Request) -> Response:
        if self._gateway.draining:
            return JSONResponse({"status": "draining"}, 503)
        problem = await self._problem_now()
        return JSONResponse({"status": "ready"}) if problem is None else JSONResponse({"status": "not ready", "reason": problem}, 503)

    async def metrics(self, request: Request) -> Response:
        return Response(self._gateway.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def root(self, request: Request) -> Response:
        host = request.headers.get("host", "127.0.0.1:8080")
        return PlainTextResponse(
            f"decluster {__version__}: set your client's base_url to http://{host}/v1\n"
            "Metrics at /metrics, health at /healthz and /readyz.\n"
        )

    async def _problem_now(self) -> str | None:
        """What keeps the upstream from being used. All that probe in one moment share one question to it."""
        loop = self._gateway.loop
        if loop.time() - self._asked_at < READY_FOR_S:
            return self._problem
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask())
        self._problem = await asyncio.shield(self._asking)
        self._asked_at = loop.time()
        return self._problem

    async def _ask(self) -> str | None:
        """Any answer below 500 shows an upstream that works; what it says of a missing key is the clients' affair."""
        gateway = self._gateway
        target = gateway.target
        request = request_for(target, "GET", b"/models", b"", [], None, stream=False, clocks=gateway.settings.clocks)
        try:
            async with asyncio.timeout(PROBE_S):
                response = await gateway.transport(target).handle_async_request(request)
                try:
                    body = await response.aread()
                finally:
                    await response.aclose()
        except TimeoutError:
            return f"upstream {target.upstream.name} did not answer within {PROBE_S:g} s"
        except httpx.RequestError as error:
            return f"upstream {target.upstream.name}: {error}"
        if response.status_code >= 500:
            return f"upstream {target.upstream.name} answers {response.status_code}"
        if response.status_code == 200:
            gateway.learn_models(body)
        return None
