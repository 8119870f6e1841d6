"""Who may see the page: whoever sits at this machine, or holds a client key.

"At this machine" is the address that the connection comes from, and the name that was asked for: a foreign page whose own name was pointed
at 127.0.0.1 (DNS rebinding) comes from here too, but asks for its own name.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.server.asking import Refused
from gateway.server.clients import client_of
from gateway.server.hosts import is_loopback, name_of
from gateway.server.origins import is_foreign
from gateway.settings import Client
from gateway.wire.headers import first

_PROXIED: Final = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})


def is_local(scope: Any) -> bool:
    """Whether the request comes from this machine and asks for it by name: by no proxy, which may stand for anybody, nor by a page of
    elsewhere."""
    client, fields = scope.get("client"), scope["headers"]
    if client is None or not is_loopback(client[0]) or not is_loopback(name_of(first(fields, b"host") or b"")):
        return False
    return not is_foreign(fields) and not any(name in _PROXIED for name, _ in fields)


def may_look(scope: Any, clients: tuple[Client, ...]) -> bool:
    """Local, or with a client's key."""
    if is_local(scope):
        return True
    if not clients:
        return False
    try:
        return client_of(clients, scope["headers"]) is not None
    except Refused:
        return False
