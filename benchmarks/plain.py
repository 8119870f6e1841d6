"""The relay that everybody writes first: Starlette and httpx as they come. `python -m benchmarks.plain PORT UPSTREAM_URL`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

_HOP: Final = {"host", "content-length", "connection", "transfer-encoding"}


def relay(upstream: str) -> Starlette:
    @asynccontextmanager
    async def client(app: Starlette) -> AsyncIterator[None]:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
        async with httpx.AsyncClient(base_url=upstream, timeout=600, limits=limits) as app.state.client:
            yield

    async def pass_on(request: Request) -> StreamingResponse:
        http = request.app.state.client
        fields = {name: value for name, value in request.headers.items() if name not in _HOP}
        asked = http.build_request(request.method, request.url.path, headers=fields, content=await request.body())
        answer = await http.send(asked, stream=True)
        kept = {name: value for name, value in answer.headers.items() if name not in _HOP}
        return StreamingResponse(answer.aiter_raw(), answer.status_code, kept, background=BackgroundTask(answer.aclose))

    return Starlette(routes=[Route("/{path:path}", pass_on, methods=["GET", "POST"])], lifespan=client)


if __name__ == "__main__":
    uvicorn.run(relay(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
