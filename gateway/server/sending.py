"""One request on its way to upstreams: where it may go, and what each of them is sent.

Owns the call's aim (its target, its body, its controls) from attempt to attempt. Invariant: an attempt's request is made of the client's
own and of what its target's route says, never of what another target got.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import httpx

from gateway.dialects import Dialect
from gateway.errors import Failure
from gateway.policy.attempts import Attempts, Try
from gateway.policy.routes import plan_of
from gateway.policy.shaping import shaped, shapes
from gateway.relay.tries import Tries
from gateway.server.asking import plain
from gateway.server.call import Call
from gateway.server.controlling import prepared, without_coding
from gateway.server.mending import Onward, mending_for
from gateway.server.passing import Upload
from gateway.server.streaming import dialect_for
from gateway.server.upstreaming import request_for
from gateway.server.usage import asking, opened
from gateway.settings import RouteTarget
from gateway.wire import headers
from gateway.wire.headers import Fields

_SAFE: frozenset[str] = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_TRACE_CONTEXT: frozenset[bytes] = frozenset({b"traceparent", b"tracestate"})
_UNSENT: frozenset[str] = frozenset({"upstream_unreachable", "upstream_connect_timeout", "upstream_tls"})


class Sending:
    """tries: the attempts. body: as the target that is aimed at gets it, but for what it is asked in addition."""

    __slots__ = ("_asked", "_call", "_client_body", "_client_fields", "_hop", "_known", "body", "mending", "tries")

    def __init__(self, call: Call, body: bytes | Upload, *, alone: bool = False, known: bool = False) -> None:
        """`alone`: only its first target can answer it. `known`: the body asks for an answer in the call's dialect."""
        gateway, settings = call.gateway, call.gateway.settings
        self._call = call
        self._known = known
        self._client_body = body
        self._client_fields = call.fields
        self._asked: bytes | None = None
        self._hop = -1
        self.body = prepared(call, body) if known and isinstance(body, bytes) else body
        plan = plan_of(settings, call.ask.model, gateway.chance(), alone=alone or _is_tied(call, body))
        counted = headers.first(call.fields, b"x-stainless-retry-count") or b"0"
        attempts = Attempts(
            plan,
            gateway.healths,
            settings.retry,
            gateway.chance,
            gateway.loop.time(),
            repeats=not counted.isdigit() or int(counted[:9]) == 0,  # an SDK that repeats by itself is not multiplied
        )
        self.tries = Tries(gateway.loop, attempts, self._open, settings.clocks.headers, self._tried, self._again)
        self._aim(fresh=False)
        self.mending = mending_for(call, self.tries, self._aimed) if known and call.ask.stream else None

    def close(self) -> None:
        """Nothing more is sent. Lets go of the attempts, which know it, so that all are freed at once and not by the garbage collector."""
        if self.mending is not None:
            self.mending.book()
        del self.tries, self.mending

    def renewed(self) -> Dialect:
        """Of the attempt that is to come."""
        self._aim()
        return dialect_for(self._call)

    def _aim(self, fresh: bool = True) -> None:
        """Make the call one to the current attempt's target. `fresh`: the body was made for another."""
        call, current = self._call, self.tries.current
        if current.hop == self._hop:
            return
        place = call.gateway.places[current.target.upstream]
        if current.hop:
            call.gateway.metrics.fallbacks.add()
        fresh = fresh or place.upstream is not call.target.upstream
        self._hop = current.hop
        call.target = place
        call.sent_model = current.target.model or call.ask.model
        call.record.upstream, call.record.provider = place.upstream.name, place.upstream.provider
        if not isinstance(self._client_body, bytes):
            return
        if not self._known:
            call.fields, self.body = self._client_fields, self._client_body
            with suppress(ValueError):  # it was no JSON object after all
                self.body = self._shaped(current.target)
            return
        if fresh:
            call.fields = self._client_fields
            self.body = prepared(call, self._client_body)
        self.body = self._shaped(current.target)
        call.hides_usage = False
        self._asked = asking(call, self.body, place.upstream) if isinstance(self.body, bytes) else None

    def _shaped(self, target: RouteTarget) -> bytes | Upload:
        call, body = self._call, self.body
        if not shapes(target) or not isinstance(body, bytes) or (self._known and call.ask.carried is None):
            return body
        body = plain(body, call.fields, call.gateway.settings.limits.request_bytes)
        call.fields = without_coding(call.fields)
        return shaped(body, target)

    def _tried(self, upstream: str, outcome: str) -> None:
        self._call.gateway.metrics.tried(upstream, outcome)
        if self._call.span is not None:
            self._call.span.attempted(outcome)

    async def _open(self, current: Try) -> httpx.Response:
        self._aim()
        call = self._call
        if call.span is not None:
            followed = [field for field in call.fields if field[0] not in _TRACE_CONTEXT]
            call.fields = [*followed, *call.span.attempt(current.target.upstream)]
        transport = call.gateway.transport(call.target)
        onward = None if self.mending is None else self.mending.onward
        if onward is not None:
            return await transport.handle_async_request(self._request_onward(onward, current))
        own = self._request(self.body, current)
        if self._asked is None:
            return await transport.handle_async_request(own)
        return await opened(call, transport, self._request(self._asked, current), own)

    def _aimed(self) -> bytes | None:
        """The call made one to the current attempt's target, and its body, readable."""
        self._aim()
        call, body = self._call, self._asked or self.body
        if not isinstance(body, bytes):
            return None
        body = plain(body, call.fields, call.gateway.settings.limits.request_bytes)
        call.fields = without_coding(call.fields)
        return body

    def _request_onward(self, onward: Onward, current: Try) -> httpx.Request:
        call = self._call
        body = (self._asked or self.body) if onward.body is None else onward.body
        moved = onward.path is not None
        if moved:
            described = (b"content-type", b"content-encoding")
            call.fields = [field for field in call.fields if field[0].lower() not in described]
        fields = self._fields()
        if onward.body is not None:  # another request than the one that the client's key names
            fields = [field for field in fields if field[0].lower() != b"idempotency-key"]
        return request_for(
            call.target,
            "GET" if moved else call.method,
            onward.path or call.path or b"/",
            onward.query or call.scope["query_string"],
            [*fields, *onward.fields],
            None if moved or not isinstance(body, bytes) else body,
            stream=True,
            clocks=call.gateway.settings.clocks,
            key=max(current.key, 0),
            repeated=self.tries.attempts.made > 1,
        )

    def _fields(self) -> Fields:
        """The client's, and the name under which a resumable stream is asked for."""
        fields = self._call.fields
        if self.mending is None or not self.mending.named or headers.first(fields, b"idempotency-key") is not None:
            return fields
        return [*fields, (b"idempotency-key", self._call.request_id)]

    def _request(self, body: bytes | Upload, current: Try) -> httpx.Request:
        call = self._call
        content: AsyncIterator[bytes] | bytes | None = body.chunks() if isinstance(body, Upload) else body
        if content == b"" and call.method in _SAFE:
            content = None
        return request_for(
            call.target,
            call.method,
            call.path or b"/",
            call.scope["query_string"],
            self._fields(),
            content,
            stream=call.ask.stream,
            clocks=call.gateway.settings.clocks,
            key=max(current.key, 0),
            repeated=self.tries.attempts.made > 1,
        )

    def _again(self, failure: Failure) -> bool:
        """Whether the request can be sent once more: nothing that may have been done is done twice, but for answers."""
        if isinstance(self._client_body, Upload):
            return not self._client_body.begun
        return self._known or self._call.method in _SAFE or failure.code in _UNSENT


def _is_tied(call: Call, body: bytes | Upload) -> bool:
    """Whether it goes on with what one upstream keeps."""
    return isinstance(body, bytes) and (b'"previous_response_id"' in body or (call.path == b"/responses" and b'"conversation"' in body))
