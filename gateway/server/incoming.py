"""What a client may send: how large a head, how slowly head and body, on how many connections; and what follows odd or broken bytes.

uvicorn's protocol, into which this goes, bounds none of it. Invariants:
- No timer runs for a request that comes in one read, nor while it is us who do not read.
- Each connection is at any time in an exchange, or among those that `Bounds.resting` holds, longest first: of these one has to go where
  a new connection finds no room, so that heads which never end keep nobody out.
- Nothing is parsed behind bytes that are no HTTP, behind an upgrade that is not made, nor put into an answer that has begun.
- A trailer is never a header: who checks heads in front of us has not seen it (RFC 9110, 6.5.1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gateway.dialects.base import error_body
from gateway.errors import Failure
from gateway.settings import Listen
from gateway.wire.headers import Fields

LOG: Final = logging.getLogger("decluster")
FIELDS_AT_MOST: Final = 256  # of one head; SDKs send twenty, proxies add as many
LINGER_S: Final = 2.0  # for a client to read why it was refused
BODY_RATE: Final = 500  # bytes a second, over listen.body_timeout; a modem's tenth
_NOT_FOR_SERVERS: Final = frozenset({b"CONNECT", b"TRACE"})  # TRACE: whoever answers it repeats the head, and with it the upstream's key
_WATCHED: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"upgrade", b"expect"})
_BETWEEN, _HEAD, _BODY = range(3)
_SAY_AGAIN_S: Final = 60.0


@dataclass(slots=True)
class Bounds:
    """`listen`'s, and the connections that are in no exchange. stall_s: how long a client may take nothing of what is written to it."""

    listen: Listen
    stall_s: Callable[[], float | None] = lambda: None
    resting: dict[Incoming, None] = field(default_factory=dict)
    said_at: float = float("-inf")

    def say(self, now: float, what: str) -> None:
        """At most once a minute: whoever opens connections must not fill the log."""
        if now - self.said_at >= _SAY_AGAIN_S:
            self.said_at = now
            LOG.warning(what, extra={"connections": self.listen.connections})


class Incoming(HttpToolsProtocol):
    """Made with `bounds` by a subclass of its own (`bounded`)."""

    bounds = Bounds(Listen())

    # For the event loop.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._stage = _BETWEEN
        self._seen_bytes = 0  # of an unfinished head, of trailers, or of the body since the last look
        self._large = False  # the read that is parsed: a head in it may be too large without being unfinished
        self._unhurried = False  # since the last look there was a time in which we did not read
        self._deaf = False
        self._refusal: Failure | None = None  # what the parser is stopped for
        self._timer: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        bounds = self.bounds
        if len(self.connections) > bounds.listen.connections:
            oldest = next(iter(bounds.resting), None)
            if oldest is None:
                bounds.say(self.loop.time(), "no more connections are taken; listen.connections is the limit")
                self._turn_away(Failure("overloaded", "The gateway has as many connections as it takes. Ask again.", headers=_LATER))
                return
            bounds.say(self.loop.time(), "idle connections are closed for new ones; listen.connections is the limit")
            bounds.resting.pop(oldest)
            oldest.transport.abort()
        bounds.resting[self] = None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.resting.pop(self, None)
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()
        self._timer = self._stall = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._stage != _BODY:
            self._seen_bytes += len(data)
        self._large = len(data) > self.bounds.listen.head_bytes
        super().data_received(data)
        if self._deaf:
            return
        stage = self._stage
        if stage == _BODY:
            if self._timer is None and self.bounds.listen.body_timeout is not None:
                self._timer = self.loop.call_later(self.bounds.listen.body_timeout, self._look)
        elif stage == _HEAD and self._seen_bytes > self.bounds.listen.head_bytes:
            self._turn_away(_too_large(self.bounds.listen.head_bytes))
        elif self._timer is None and (stage == _HEAD or not self._answering):
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        stall_s = self.bounds.stall_s()
        if stall_s is not None and self._stall is None:
            # Streams have this clock themselves and say why they end: it comes first.
            self._stall = self.loop.call_later(stall_s + 1.0, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    # What llhttp calls.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._stage = _HEAD
        self._watched: Fields = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._stage == _HEAD:  # uvicorn's own, in one call
            name = name.lower()
            self.headers.append((name, value))
            if name in _WATCHED:
                self._watched.append((name, value))
                if name == b"expect" and value.lower() == b"100-continue":
                    self.expect_100_continue = True
            return
        self._seen_bytes += len(name) + len(value)
        if self._seen_bytes > self.bounds.listen.head_bytes:
            self._refusal = Failure("invalid_request", "The request's trailers are larger than listen.head_bytes.")
            raise httptools.HttpParserError(self._refusal.code)

    def on_headers_complete(self) -> None:
        problem = self._problem()
        if problem is not None:
            self._refusal = problem
            raise httptools.HttpParserError(problem.code)
        super().on_headers_complete()
        self._stage, self._seen_bytes, self._unhurried = _BODY, 0, False
        self._stop_timer()
        self.bounds.resting.pop(self, None)

    def on_body(self, body: bytes) -> None:
        self._seen_bytes += len(body)
        super().on_body(body)
        if self.flow.read_paused:
            self._unhurried = True

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._stage, self._seen_bytes = _BETWEEN, 0
        self._stop_timer()

    # What uvicorn calls.

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline and not self._answering:
            self.bounds.resting[self] = None

    def send_400_response(self, msg: str) -> None:
        self._turn_away(self._refusal or Failure("invalid_request", "The request is not HTTP/1.1 as the standard has it."))

    def _unsupported_upgrade_warning(self) -> None:
        """llhttp has stopped: what follows would be taken for another request, and is none."""
        self._deaf = True
        self._stop_timer()
        self.cycle.keep_alive = False

    # Our own.

    @property
    def in_head(self) -> bool:
        """What comes next belongs to no body."""
        return self._stage != _BODY

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _problem(self) -> Failure | None:
        """What is wrong with a whole head that llhttp takes. Framing must leave nothing to opinion: whatever stands in front of us, or
        behind, may have another."""
        limit = self.bounds.listen.head_bytes
        if len(self.headers) > FIELDS_AT_MOST or ((self._large or self._seen_bytes > limit) and self._head_bytes > limit):
            return _too_large(limit)
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            return Failure("invalid_request", "Only HTTP/1.1 and HTTP/1.0 are spoken here.", status=505)
        if self.parser.get_method() in _NOT_FOR_SERVERS:
            return Failure("invalid_request", "CONNECT and TRACE are not for this server.", status=405)
        hosts = codings = 0
        framed, upgrade = False, b""
        for name, value in self._watched:
            if name == b"host":
                hosts += 1
            elif name == b"upgrade":
                upgrade = value.lower()
            elif name == b"content-length":
                framed = value != b"0"
            elif name == b"transfer-encoding":
                codings += 1
                if value.lower() != b"chunked" or codings > 1 or version == "1.0":
                    return Failure("invalid_request", "The only transfer-encoding that is taken here is chunked, once, in HTTP/1.1.")
        if hosts > 1:
            return Failure("invalid_request", "The request has more than one Host.")
        if upgrade != b"websocket" and (framed or codings) and self.parser.should_upgrade():  # llhttp would not see the body
            return Failure("invalid_request", "The request offers an upgrade and has a body: send one of the two.")
        return None

    def _await_head(self) -> None:
        if self.bounds.listen.head_timeout is not None:
            self._timer = self.loop.call_later(self.bounds.listen.head_timeout, self._head_late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_late(self) -> None:
        self._timer = None
        if self._stage == _BODY or self.transport.is_closing():
            return
        if self._answering:  # a part of the next request came with this one: its client waits for the answer as well
            self._await_head()
        elif self._stage == _BETWEEN:
            self._deaf = True
            self.transport.close()  # nothing was begun: nobody waits for words
        else:
            self._turn_away(Failure("request_timeout", "The request's head did not come within listen.head_timeout."))

    def _look(self) -> None:
        """Every listen.body_timeout while a body comes."""
        self._timer = None
        within_s = self.bounds.listen.body_timeout
        if self._stage != _BODY or within_s is None or self.transport.is_closing():
            return
        ours = self._unhurried or self.flow.read_paused or self.cycle.waiting_for_100_continue
        if not ours and self._seen_bytes < BODY_RATE * within_s:
            self._turn_away(Failure("request_timeout", f"The request's body came with less than {BODY_RATE} bytes a second."))
            return
        self._seen_bytes, self._unhurried = 0, False
        self._timer = self.loop.call_later(within_s, self._look)

    def _turn_away(self, failure: Failure) -> None:
        """Answer with the failure, if what is refused has no answer; close, and listen to nothing more."""
        self._deaf = True
        self._stop_timer()
        cycle = self.cycle
        begun = cycle is not None and cycle.response_started
        if self.pipeline or (begun and not cycle.response_complete):
            self.transport.abort()  # in the middle of an answer: it must not look whole, nor hold words that are none of it
            return
        if begun and self._stage == _BODY:  # a second answer would be taken for that to the next request
            self.transport.close()
            return
        if self._answering:
            cycle.disconnected = True
            cycle.message_event.set()
        LOG.info("refused what a client sent", extra={"code": failure.code, "why": failure.message})
        body = error_body(failure)
        fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        head = b"".join(b"%b: %b\r\n" % pair for pair in (*fields, *failure.headers))
        self.transport.write(STATUS_LINE[failure.http_status] + head + b"\r\n" + body)
        self._linger()

    def _linger(self) -> None:
        """Take what is still under way, or the reset that unread bytes call forth destroys the answer at the client's (RFC 9112, 9.6)."""
        self.flow.resume_reading()
        self.transport.write_eof()
        self.bounds.resting[self] = None
        self._timer = self.loop.call_later(LINGER_S, self.transport.close)


_LATER: Final = ((b"retry-after", b"1"),)


def _too_large(limit_bytes: int) -> Failure:
    return Failure(
        "head_too_large", f"The request's head is larger than listen.head_bytes ({limit_bytes} bytes), or has over {FIELDS_AT_MOST} fields."
    )


def bounded(protocol: type[Incoming], bounds: Bounds) -> type[Incoming]:
    """The protocol for one server."""
    return type(protocol.__name__, (protocol,), {"bounds": bounds})
