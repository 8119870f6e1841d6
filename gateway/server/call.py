"""One request to the API: what is known of it from its head, and the record that is kept of it."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any

from gateway.dialects import dialect_of
from gateway.metrics.record import Record
from gateway.policy.controls import Controls
from gateway.relay.channel import Send
from gateway.server.asking import Ask, Receive
from gateway.server.gateway import Gateway
from gateway.upstream.targets import Target, api_path
from gateway.wire.headers import Fields

Scope = MutableMapping[str, Any]


class Call:
    """`path`: below /v1, None where it is none of the API's. `began`: loop time. `dialect`: what a stream of its answer speaks.

    controls: None until the request's body was read.
    """

    __slots__ = (
        "ask",
        "began",
        "controls",
        "dialect",
        "fields",
        "gateway",
        "method",
        "path",
        "receive",
        "record",
        "request_id",
        "scope",
        "send",
        "target",
    )

    def __init__(self, gateway: Gateway, scope: Scope, receive: Receive, send: Send) -> None:
        self.gateway = gateway
        self.scope = scope
        self.receive = receive
        self.send = send
        self.began = gateway.loop.time()
        self.method: str = scope["method"]
        self.fields: Fields = scope["headers"]
        self.request_id = b"req_" + os.urandom(12).hex().encode()
        self.path = api_path(scope.get("raw_path") or scope["path"].encode())
        self.target: Target = gateway.target
        self.dialect = dialect_of(self.method, self.path or b"")
        self.ask = Ask()
        self.controls: Controls | None = None
        operation = "embeddings" if self.path == b"/embeddings" else self.dialect.operation if self.dialect else "other"
        shown = (self.path or b"").decode("latin-1").split("/")[1:2]  # what follows may be an id
        self.record = Record(operation, f"/v1/{shown[0] if shown else ''}", None, False, request_id=self.request_id.decode())
