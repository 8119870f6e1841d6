"""Who asks: the client that a request's key belongs to.

Keys are long and random, so their SHA-256 is as good as they are. Invariants: each hash is compared, in constant time, whichever matches;
a key is never kept, logged or told.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from gateway.errors import Failure
from gateway.server.asking import Refused
from gateway.settings import Client
from gateway.wire.headers import Fields, first

_SCHEME: Final = b"bearer "


def credential(fields: Fields) -> bytes:
    """The key that a request carries, as OpenAI's, Anthropic's and Azure's clients send it; empty where it has none."""
    authorization = first(fields, b"authorization")
    if authorization is not None:
        value = authorization.strip()
        return value[len(_SCHEME) :].strip() if value[: len(_SCHEME)].lower() == _SCHEME else value
    return (first(fields, b"x-api-key") or first(fields, b"api-key") or b"").strip()


def client_of(clients: tuple[Client, ...], fields: Fields) -> Client | None:
    """None where no client needs a key. Refused where the key is nobody's."""
    if not clients:
        return None
    presented = hashlib.sha256(credential(fields)).hexdigest()
    found: Client | None = None
    for client in clients:
        if hmac.compare_digest(presented, client.key_sha256):
            found = client
    if found is None:
        raise Refused(
            Failure(
                "invalid_api_key",
                "This gateway wants a key of its own, and the one sent is not known here. Ask whoever runs it for one, and send it as "
                "Authorization: Bearer KEY (in SDKs: api_key).",
                headers=((b"www-authenticate", b"Bearer"), (b"x-should-retry", b"false")),
            )
        )
    return found


def identity(client: Client | None, fields: Fields) -> str:
    """What limits are counted by: the client's name, or a trace of the upstream's key that it brings itself."""
    return client.name if client is not None else "key:" + hashlib.sha256(credential(fields)).hexdigest()[:32]
