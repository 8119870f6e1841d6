"""One streamed answer: where the pure machine meets IO.

Owns the attempt at the upstream, the pump in both directions, the timers and the ending of one stream. Everything here happens in
callbacks of the event loop: bytes from the upstream are decoded, paced and written in the turn in which they came.

Invariants: the response begins once, with a status that is true: 200 only when content or a heartbeat leaves. The upstream is let go of in
the turn in which the client leaves. While the client does not read, nothing is queued beyond the bound and no heartbeat at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import httpx

from gateway.clock import Ticker
from gateway.errors import Failure
from gateway.relay.channel import Channel, Send
from gateway.relay.failures import before_the_answer, in_the_answer
from gateway.relay.intake import Intake, unreadable
from gateway.settings import Clocks, Limits
from gateway.stream import Phase, Stream
from gateway.upstream.body import Handle
from gateway.upstream.push import push
from gateway.wire import headers
from gateway.wire.coding import CodingError
from gateway.wire.headers import Fields

LINGER_S: Final = 1.0  # after the last event, for the end of the HTTP message: then the connection can be used again
FAR_S: Final = 0.080  # a frame that is further off than this is left to the slow timer: the ticker would ask in vain
_STEP_S: Final = 0.001  # uvloop spins on timers under a millisecond


class Exchange:
    """Drive it with `run`; read `stream`, `status` and `client_gone` afterwards."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ticker: Ticker,
        stream: Stream,
        send: Send,
        clocks: Clocks,
        limits: Limits,
        *,
        request_id: bytes,
        drops_oldest: bool = False,
    ) -> None:
        self.stream = stream
        self.status = 0
        self.client_gone = False
        self._loop = loop
        self._ticker = ticker
        self._channel = Channel(loop, send, self._drained, self.leave)
        self._clocks = clocks
        self._limits = limits
        self._request_id = request_id
        self._drops_oldest = drops_oldest
        self._fields: Fields = []
        self._source: Handle | None = None
        self._paused = False
        self._intake: Intake | None = None
        self._over = False  # the upstream's body has ended
        self._slot: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._blocked_since = 0.0
        self._attempt: asyncio.Task[None] | None = None
        self._lingering = False
        self.done: asyncio.Future[None] = loop.create_future()

    # The attempt

    async def run(self, opening: Callable[[], Awaitable[httpx.Response]], passing: Callable[[httpx.Response], Awaitable[None]]) -> None:
        """Open the upstream's answer and stream it to the end. `passing` takes over an answer that is to be passed on as it is."""
        self._attempt = self._loop.create_task(self._open(opening, passing))
        self._arm()
        try:
            await self.done
        finally:
            self._let_go()

    async def adopt(self, response: httpx.Response) -> None:
        """Stream an answer that is open already."""
        self._take(response)
        self._arm()
        try:
            await self.done
        finally:
            self._let_go()

    async def _open(self, opening: Callable[[], Awaitable[httpx.Response]], passing: Callable[[httpx.Response], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(self._clocks.headers):
                response = await opening()
        except TimeoutError:
            self._fail(before_the_answer(httpx.ReadTimeout("")))
            return
        except httpx.RequestError as error:
            self._fail(before_the_answer(error))
            return
        if not 200 <= response.status_code < 300 and not self.status:
            self._disarm()  # from here on it is a plain answer, without heartbeats
            self.status = response.status_code
            self.stream.failure = Failure("upstream_error", "the upstream refused", response.status_code)
            await passing(response)
            self._finish()
            return
        self._take(response)

    def _take(self, response: httpx.Response) -> None:
        self._fields = headers.of_a_stream(response.headers.raw)
        try:
            self._intake = Intake(response, self.stream.dialect, self._limits.event_bytes)
        except CodingError as error:
            self._fail(unreadable(error))
            return
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # what an async transport gives
        self._source = push(response.stream, self)
        if self._over or not self.stream.wants_upstream:  # all of it had come already
            self._release_source()

    # The upstream's side: a sink

    def data(self, chunk: bytes) -> None:
        if self._lingering:
            return
        intake = self._intake
        if intake is not None and not intake.transparent:
            fed = intake.feed(chunk)
            if isinstance(fed, Failure):
                self._fail(fed)
                return
            chunk = fed
        now = self._loop.time()
        stream = self.stream
        stream.receive(now, chunk)
        self._flush(now)
        if stream.dialect.proven and stream.dialect.closes:  # it closes soon, whatever comes
            self._arm()
        if stream.held_bytes > self._limits.stream_bytes:
            self._overflow(now)

    def _overflow(self, now: float) -> None:
        """More is held than the bound allows: the upstream waits; or, for live viewers, the oldest goes."""
        if self._drops_oldest and self._channel.blocked:
            self.stream.shed(now, self._limits.stream_bytes // 2)
        elif not self._paused and self._source is not None:
            self._paused = True
            self._source.pause()

    def end(self, error: Exception | None) -> None:
        self._source = None
        self._over = True
        if self._lingering:
            return
        now = self._loop.time()
        if self._intake is not None and error is None:
            rest = self._intake.finish()
            if isinstance(rest, Failure):
                self._fail(rest)
                return
            self.stream.receive(now, rest)
        self.stream.upstream_ended(now, None if error is None else in_the_answer(error))
        self._flush(now)

    # The client's side

    def on_tick(self, now: float) -> bool:
        """Asked each frame while tokens are held."""
        if not self._channel.blocked:
            self._flush(now)
        if self._slot is not None and self.stream.next_frame() > now + FAR_S:
            self._slot = None
            self._arm()
            return False
        return self._slot is not None

    def leave(self) -> None:
        """The client has gone."""
        if not self.done.done():
            self.client_gone = True
            self._finish()

    def shut_down(self) -> None:
        """The grace is over: end with an honest error."""
        self._fail(Failure("shutting_down", "The gateway is shutting down and could not finish this answer. Ask again."))

    def _flush(self, now: float) -> None:
        """Write what is due, and see to the ends of both sides."""
        stream = self.stream
        if self.done.done():
            return
        if stream.phase is Phase.HOLDING:
            if stream.failure is not None:
                self._refuse(now, stream.failure)
            return
        if not self._channel.blocked:
            frame = stream.due(now)
            if frame:
                self._write(frame)
            if stream.phase is Phase.ENDED and not self._channel.blocked:
                self._channel.write({"type": "http.response.body", "body": b"", "more_body": False})
                self._finish()
                return
        if not stream.wants_upstream:
            self._release_source()
        elif self._paused and stream.held_bytes < self._limits.stream_bytes // 2 and self._source is not None:
            self._paused = False
            self._source.resume()
        if self._slot is None and stream.pacing:
            if stream.next_frame() > now + FAR_S:
                self._arm()
            else:
                self._slot = self._ticker.add(self)

    def _write(self, data: bytes) -> None:
        if not self.status:
            self._begin(200, [*(self._fields or headers.STREAM_FIELDS)])
        self._channel.write({"type": "http.response.body", "body": data, "more_body": True})
        if self._channel.blocked:
            self._blocked_since = self._loop.time()

    def _begin(self, status: int, fields: Fields) -> None:
        self.status = status
        if headers.first(fields, b"x-request-id") is None:
            fields.append((b"x-request-id", self._request_id))
        lower = [(name.lower(), value) for name, value in fields]
        self._channel.write({"type": "http.response.start", "status": status, "headers": lower})

    def _drained(self) -> None:
        now = self._loop.time()
        self.stream.waited_for_client(now)
        self._flush(now)

    def _fail(self, failure: Failure) -> None:
        now = self._loop.time()
        self.stream.fail(now, failure)
        if not self.done.done():
            self._release_source()
            self._flush(now)

    def _refuse(self, now: float, failure: Failure) -> None:
        """A failure before any content: a status if the response has not begun, else an event."""
        self._release_source()
        if self.status:
            self.stream.tell(now)
            self._flush(now)
            return
        body = self.stream.dialect.error_body(failure)
        fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *failure.headers]
        self._begin(failure.http_status, fields)
        self._channel.write({"type": "http.response.body", "body": body, "more_body": False})
        self._finish()

    # Timers and ends

    def _arm(self) -> None:
        """Set the slow timer, or set it sooner. What has moved on since is seen when it fires."""
        if self.done.done():
            return
        at = self.stream.wakeup()
        if self._slot is None:
            at = min(at, self.stream.next_frame())
        if self._channel.blocked and self._clocks.client_stall is not None:
            at = min(at, self._blocked_since + self._clocks.client_stall)
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        if at != float("inf"):
            self._timer_at = at
            self._timer = self._loop.call_at(max(at, self._loop.time()) + _STEP_S, self._on_timer)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        if self._channel.blocked:
            stall = self._clocks.client_stall
            if stall is not None and now >= self._blocked_since + stall:
                self.leave()
                return
            self._timer_at = now + min(stall or 1.0, 1.0)
            self._timer = self._loop.call_at(self._timer_at, self._on_timer)
            return
        heartbeat = self.stream.tick(now)
        if heartbeat:
            self._write(heartbeat)
        self._flush(now)
        self._arm()

    def _release_source(self) -> None:
        """The upstream is not wanted any more. After a whole answer the end of its HTTP message is waited for, shortly."""
        source = self._source
        if source is None or self._lingering:
            return
        if self.stream.failure is None and self.stream.phase in (Phase.CLOSING, Phase.ENDED):
            self._lingering = True
            self._loop.call_later(LINGER_S, source.abort)
            if self._paused:
                source.resume()
        else:
            self._source = None
            source.abort()

    def _finish(self) -> None:
        self._disarm()
        if not self.done.done():
            self.done.set_result(None)
        self._let_go()

    def _let_go(self) -> None:
        self._disarm()
        if self._slot is not None:
            self._ticker.remove(self, self._slot)
            self._slot = None
        if self._attempt is not None and not self._attempt.done() and self._attempt is not asyncio.current_task():
            self._attempt.cancel()
        if self.client_gone or not self.done.done():
            if self._source is not None:
                self._source.abort()
                self._source = None
        else:
            self._release_source()
