"""The ASGI application: the API's paths go straight to the raw callable, the rest to Starlette's routes."""

from __future__ import annotations

from typing import Any, Final

from starlette.applications import Starlette

from gateway.relay.channel import Send
from gateway.server.api import Api
from gateway.server.asking import Receive
from gateway.server.call import Scope
from gateway.server.gateway import Gateway
from gateway.server.own import Own

_OWN_PATHS: Final = frozenset({"/", "/healthz", "/readyz", "/metrics"})


def application(gateway: Gateway) -> Any:
    """An ASGI 3 callable for http scopes."""
    api = Api(gateway)
    own = Starlette(routes=Own(gateway).routes())

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] in _OWN_PATHS:
            await own(scope, receive, send)
            return
        await api(scope, receive, send)

    return app
