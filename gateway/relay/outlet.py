"""The client's side of an exchange: one response, begun once, written frame by frame, ended once.

Knows what HTTP wants of a response; nothing of streams, pacing or upstreams.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.relay.channel import Channel, Direct, Send
from gateway.wire import headers
from gateway.wire.headers import Fields


class Outlet:
    """status: 0 until the response has begun. over: its last message was written, though the server may not have taken it yet.
    blocked: the client does not take what it is given; since `blocked_since` (loop time).

    drained: called when it does again; broken: when the server can write no more. The calls that end the response say what then happens,
    once the server has taken all of it: of a client that reads slowly that is later.
    """

    __slots__ = ("_channel", "_loop", "_request_id", "blocked_since", "fields", "over", "status")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        send: Send,
        request_id: bytes,
        drained: Callable[[], None],
        broken: Callable[[], None],
        direct: Direct | None = None,
    ) -> None:
        self._loop = loop
        self._channel = Channel(loop, send, drained, broken, direct)
        self._request_id = request_id
        self.fields: Fields = headers.STREAM_FIELDS  # of the stream's head; the upstream's once they are known
        self.status = 0
        self.over = False
        self.blocked_since = 0.0

    @property
    def blocked(self) -> bool:
        return self._channel.blocked

    def begin(self, status: int) -> None:
        """The stream's head, ahead of its first frame."""
        if not self.status:
            self._begin(status, self.fields)

    def frame(self, data: bytes) -> None:
        """One write; the first begins the stream."""
        if not self.status:
            self._begin(200, self.fields)
        channel = self._channel
        channel.body(data)
        if channel.blocked:
            self.blocked_since = self._loop.time()

    def close(self) -> None:
        """Whatever became of it, it is over for its owner."""
        self._channel.close()

    def end(self, then: Callable[[], None]) -> None:
        self._last(b"", then)

    def whole(self, status: int, body: bytes, fields: Fields, then: Callable[[], None]) -> None:
        """A whole JSON answer in place of a stream; what the upstream's head said of when to ask again, and of whom, stays."""
        own = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *fields]
        self._begin(status, [*own, *headers.of_a_failure(self.fields, own)])
        self._last(body, then)

    def relayed(self, status: int, fields: Fields, body: bytes, then: Callable[[], None]) -> None:
        """A whole answer that somebody else was given."""
        self._begin(status, fields)
        self._last(body, then)

    def _last(self, body: bytes, then: Callable[[], None]) -> None:
        self.over = True
        self._channel.write({"type": "http.response.body", "body": body, "more_body": False})
        if self._channel.blocked:
            self.blocked_since = self._loop.time()
            self._channel.drained = then
        else:
            then()

    def _begin(self, status: int, fields: Fields) -> None:
        self.status = status
        lower = [(name.lower(), value) for name, value in fields]
        if headers.first(lower, b"x-request-id") is None:
            lower.append((b"x-request-id", self._request_id))
        self._channel.write({"type": "http.response.start", "status": status, "headers": lower})
