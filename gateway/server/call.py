"""One request to the API: what is known of it from its head, and the record that is kept of it."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any

from gateway.dialects import dialect_of
from gateway.journal.recorder import Recorder
from gateway.metrics.record import Record
from gateway.policy.controls import Controls
from gateway.policy.cost import Spending
from gateway.policy.routes import route_of
from gateway.relay.channel import Send
from gateway.server.admission import Place
from gateway.server.asking import Ask, Receive
from gateway.server.gateway import Gateway
from gateway.server.telemetry import RequestSpan
from gateway.settings import Client, Route
from gateway.upstream.targets import Target, api_path
from gateway.wire.headers import Fields

Scope = MutableMapping[str, Any]


class Call:
    """`path`: below /v1, None where it is none of the API's. `began`: loop time. `dialect`: what a stream of its answer speaks.

    controls: None until the request's body was read. client: whose key it came with, None where none is needed. place: what it holds of
    the limits; spending: what keeps to its budgets. prompt_tokens: estimated, 0 where nobody wanted to know. hides_usage: the upstream is
    asked for usage in addition. recorder: the answer goes to one, for clients that can come back.
    sent_model: as the target that is aimed at is asked for it. settled: what it took is counted.
    """

    __slots__ = (
        "ask",
        "began",
        "client",
        "controls",
        "dialect",
        "fields",
        "gateway",
        "hides_usage",
        "method",
        "path",
        "place",
        "prompt_bytes",
        "prompt_tokens",
        "receive",
        "record",
        "recorder",
        "request_id",
        "scope",
        "send",
        "sent_model",
        "settled",
        "span",
        "spending",
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
        self.client: Client | None = None
        self.sent_model: str | None = None
        self.recorder: Recorder | None = None
        self.place: Place | None = None
        self.spending: Spending | None = None
        self.prompt_bytes = self.prompt_tokens = 0
        self.hides_usage = self.settled = False
        operation = "embeddings" if self.path == b"/embeddings" else self.dialect.operation if self.dialect else "other"
        shown = (self.path or b"").decode("latin-1").split("/")[1:2]  # what follows may be an id
        self.record = Record(operation, f"/v1/{shown[0] if shown else ''}", None, False, request_id=self.request_id.decode())
        self.span: RequestSpan | None = gateway.telemetry.begin(self.fields, operation)

    @property
    def route(self) -> Route | None:
        """Of the model that is asked for."""
        return route_of(self.gateway.settings.routes, self.ask.model)
