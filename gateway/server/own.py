"""The gateway's own endpoints, as Starlette routes: alive, ready, metrics."""

from __future__ import annotations

import asyncio

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway import __version__
from gateway.policy.breaker import State
from gateway.server.gateway import Gateway
from gateway.server.page.guard import is_local
from gateway.server.upstreaming import request_for
from gateway.upstream.targets import Target

READY_FOR_S = 5.0  # an answer is good for so long: probes come every few seconds from several sides
_ALL_TRIPPED = "every upstream failed too often just now and rests; see decluster_breaker_state"
OTHERS_AT_MOST = 5  # upstreams that one probe asks at once
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
            Route("/-/reload", self.reload, methods=["POST"]),
        ]

    async def healthz(self, request: Request) -> Response:
        return JSONResponse({"status": "alive", "version": __version__})

    async def readyz(self, request: Request) -> Response:
        if self._gateway.draining:
            return JSONResponse({"status": "draining"}, 503)
        problem = await self._problem_now()
        return JSONResponse({"status": "ready"}) if problem is None else JSONResponse({"status": "not ready", "reason": problem}, 503)

    async def reload(self, request: Request) -> Response:
        """For this machine only: whoever may change the file may ask for it to be read."""
        if not is_local(request.scope):
            return JSONResponse(_said("The configuration is read anew for requests of this machine only.", "forbidden"), 403)
        if self._gateway.reload is None:
            return JSONResponse(_said("The gateway was started without a configuration file.", "invalid_request"), 409)
        problem = self._gateway.reload()
        return JSONResponse({"status": "reloaded"}) if problem is None else JSONResponse(_said(problem, "invalid_configuration"), 400)

    async def metrics(self, request: Request) -> Response:
        return Response(self._gateway.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _problem_now(self) -> str | None:
        """What keeps the upstream from being used. All that probe in one moment share one question to it."""
        loop = self._gateway.loop
        if not any(health.breaker.allows(loop.time()) for health in self._gateway.healths.values()):
            return _ALL_TRIPPED
        if loop.time() - self._asked_at < READY_FOR_S:
            return self._problem
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask())
        self._problem = await asyncio.shield(self._asking)
        self._asked_at = loop.time()
        return self._problem

    async def _ask(self) -> str | None:
        """None where an upstream can be used; they are asked in order, those behind the first only where it cannot."""
        gateway = self._gateway
        now = gateway.loop.time()
        waiting = [target for target in gateway.targets if gateway.healths[target.upstream.name].breaker.allows(now)]
        if not waiting:
            return _ALL_TRIPPED
        problem = await self._problem_of(waiting[0])
        if problem is None or len(waiting) == 1:
            return problem
        others = await asyncio.gather(*map(self._problem_of, waiting[1:OTHERS_AT_MOST]))
        return None if None in others else problem

    async def _problem_of(self, target: Target) -> str | None:
        """Any answer below 500 shows an upstream that works; what it says of a missing key is the clients' affair. One that tripped is
        probed so: else a gateway that gets no requests because it is not ready would never learn that it is."""
        gateway = self._gateway
        breaker = gateway.healths[target.upstream.name].breaker
        permit = None if breaker.state is State.PASSING else breaker.begin(gateway.loop.time())
        problem: str | None = "it was not asked"
        try:
            problem = await self._answer_of(target)
        finally:
            if permit is not None:
                (breaker.succeeded if problem is None else breaker.failed)(gateway.loop.time(), permit)
        return problem

    async def _answer_of(self, target: Target) -> str | None:
        gateway = self._gateway
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


def _said(message: str, code: str) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": None}}
