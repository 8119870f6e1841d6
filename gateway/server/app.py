"""The ASGI application: the API's paths go straight to the raw callable, the rest to Starlette's routes."""

from __future__ import annotations

from typing import Any, Final

from starlette.applications import Starlette

from gateway.errors import Failure
from gateway.relay.channel import Send
from gateway.server.api import Api
from gateway.server.asking import Receive
from gateway.server.call import Scope
from gateway.server.gateway import Gateway
from gateway.server.hosts import Names
from gateway.server.origins import guarded, refuse_early
from gateway.server.own import Own
from gateway.server.page.feed import FEED, FILES, Page

_OWN_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics", "/-/reload"})
_PAGE_PATHS: Final = frozenset({FEED, *FILES})


def application(gateway: Gateway) -> Any:
    """An ASGI 3 callable for http scopes."""
    api = guarded(Api(gateway), gateway.settings.listen.cors_origins)
    own = Starlette(routes=Own(gateway).routes())
    page = Page(gateway)
    names = Names(gateway.settings.listen)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if (foreign := names.foreign(scope["headers"])) is not None:
            message = f"This gateway is not known as {foreign}: ask for it by its address, or add the name to listen.hosts."
            await refuse_early(scope, send, Failure("host_not_allowed", message))
            return
        if scope["path"] in _OWN_PATHS:
            await own(scope, receive, send)
            return
        if scope["path"] in _PAGE_PATHS:
            await page(scope, receive, send)
            return
        await api(scope, receive, send)

    return app
