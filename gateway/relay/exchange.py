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
from gateway.relay.alarm import Alarm
from gateway.relay.attempt import Opening, attempt
from gateway.relay.channel import Send
from gateway.relay.failures import in_the_answer
from gateway.relay.intake import Intake, unreadable
from gateway.relay.outlet import Outlet
from gateway.relay.tap import Tap
from gateway.settings import Settings
from gateway.stream import Phase, Stream
from gateway.wire import headers
from gateway.wire.coding import CodingError

FAR_S: Final = 0.080  # a frame that is further off than this is left to the slow timer: the ticker would ask in vain


class Exchange:
    """Drive it with `run`; read `stream`, `status` and `client_gone` afterwards."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ticker: Ticker, stream: Stream, send: Send, settings: Settings, request_id: bytes
    ) -> None:
        self.stream = stream
        self._passed_status = 0
        self.client_gone = False
        self._loop = loop
        self._ticker = ticker
        self._outlet = Outlet(loop, send, request_id, self._drained, self.leave)
        self._tap = Tap(loop)
        self._clocks = settings.clocks
        self._limits = settings.limits
        self._drops_oldest = settings.overflow == "drop_oldest"
        self._intake: Intake | None = None
        self._slot: int | None = None
        self._alarm = Alarm(loop, lambda: self._guard(self._timed))
        self._attempt: asyncio.Task[None] | None = None
        self.done: asyncio.Future[None] = loop.create_future()

    @property
    def status(self) -> int:
        """Of the response; 0 until it has begun."""
        return self._outlet.status or self._passed_status

    # The attempt

    async def run(self, opening: Opening, passing: Callable[[httpx.Response], Awaitable[None]]) -> None:
        """Open the upstream's answer and stream it to the end. `passing` takes over an answer that is to be passed on as it is."""
        self._attempt = self._loop.create_task(self._open(opening, passing))
        self._attempt.add_done_callback(self._attempted)
        self._arm()
        try:
            await self.done
        finally:
            self._let_go()

    async def _open(self, opening: Opening, passing: Callable[[httpx.Response], Awaitable[None]]) -> None:
        response = await attempt(opening, self._clocks.headers)
        if isinstance(response, Failure):
            self._fail(response)
            return
        if not 200 <= response.status_code < 300 and not self._outlet.status:
            self._alarm.clear()  # from here on it is a plain answer, without heartbeats
            self._passed_status = response.status_code
            self.stream.failure = Failure("upstream_error", "the upstream refused", response.status_code)
            try:
                await passing(response)
            except httpx.TransportError as error:  # and the client's message is left unfinished, which tells it so
                self.stream.failure = in_the_answer(error)
            self._finish()
            return
        self._take(response)

    def _attempted(self, attempt: asyncio.Task[None]) -> None:
        if not attempt.cancelled() and (error := attempt.exception()) is not None:
            self._crash(error)

    def _take(self, response: httpx.Response) -> None:
        self._outlet.fields = headers.of_a_stream(response.headers.raw)
        try:
            self._intake = Intake(response, self.stream.dialect, self._limits.event_bytes)
        except CodingError as error:
            self._fail(unreadable(error))
            return
        if not self.stream.dialect.closes:
            self._outlet.begin(response.status_code)
            self.stream.begin(self._loop.time())
        self._tap.open(response, self)
        if not self.stream.wants_upstream:  # all of it had come already
            self._release_upstream()

    # The upstream's side: a sink

    def data(self, chunk: bytes) -> None:
        if self._tap.lingering:
            return
        self._guard(self._receive, chunk)

    def _receive(self, chunk: bytes) -> None:
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
        if stream.dialect.settled:  # it closes soon, whatever comes
            self._arm()
        if stream.held_bytes > self._limits.stream_bytes:
            self._overflow(now)

    def _overflow(self, now: float) -> None:
        """More is held than the bound allows: it goes to a client that takes it; else the upstream waits, or the oldest is dropped."""
        if not self._outlet.blocked:
            self.stream.pacer.quicken(self._limits.stream_bytes // 2)
            self._flush(now)
        elif self._drops_oldest:
            self.stream.shed(now, self._limits.stream_bytes // 2)
        else:
            self._tap.pause()

    def end(self, error: Exception | None) -> None:
        self._tap.ended()
        if self._tap.lingering:
            return
        self._guard(self._end, error)

    def _end(self, error: Exception | None) -> None:
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
        if not self._outlet.blocked:
            self._guard(self._flush, now)
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
        if not self._outlet.blocked:
            frame = stream.due(now)
            while frame:
                self._outlet.frame(frame)
                frame = stream.due(now) if stream.splits and not self._outlet.blocked else b""
            if stream.phase is Phase.ENDED and not self._outlet.blocked:
                self._outlet.end()
                self._finish()
                return
        if not stream.wants_upstream:
            self._release_upstream()
        elif stream.held_bytes < self._limits.stream_bytes // 2:
            self._tap.resume()
        if self._slot is None and stream.pacing:
            if stream.next_frame() > now + FAR_S:
                self._arm()
            else:
                self._slot = self._ticker.add(self)

    def _drained(self) -> None:
        now = self._loop.time()
        self.stream.waited_for_client(now)
        self._flush(now)

    def _fail(self, failure: Failure) -> None:
        now = self._loop.time()
        self.stream.fail(now, failure)
        if not self.done.done():
            self._release_upstream()
            self._flush(now)

    def _refuse(self, now: float, failure: Failure) -> None:
        """A failure before any content: a status if the response has not begun, else an event."""
        self._release_upstream()
        if self._outlet.status:
            self.stream.tell(now)
            self._flush(now)
            return
        self._outlet.whole(failure.http_status, self.stream.dialect.error_body(failure), list(failure.headers))
        self._finish()

    # Timers and ends

    def _arm(self) -> None:
        """Set the alarm. What has moved on since is seen when it rings."""
        if self.done.done():
            return
        at = self.stream.wakeup()
        if self._slot is None:
            at = min(at, self.stream.next_frame())
        if self._outlet.blocked and self._clocks.client_stall is not None:
            at = min(at, self._outlet.blocked_since + self._clocks.client_stall)
        self._alarm.set(at)

    def _timed(self) -> None:
        now = self._loop.time()
        if self._outlet.blocked:
            stall = self._clocks.client_stall
            if stall is not None and now >= self._outlet.blocked_since + stall:
                self.leave()
                return
            self._alarm.set(now + min(stall or 1.0, 1.0))
            return
        heartbeat = self.stream.tick(now)
        if heartbeat:
            self._outlet.frame(heartbeat)
        self._flush(now)
        self._arm()

    def _release_upstream(self) -> None:
        """It is not wanted any more. After a whole answer its connection can be used again, so the message's end is waited for."""
        if self.stream.failure is None and self.stream.phase in (Phase.CLOSING, Phase.ENDED):
            self._tap.linger()
        else:
            self._tap.close()

    def _guard(self, step: Callable[..., None], *values: object) -> None:
        """A step of a callback: there is nobody above who could be told of a fault in it."""
        try:
            step(*values)
        except Exception as error:
            self._crash(error)

    def _crash(self, error: BaseException) -> None:
        """A fault of ours in a callback: `run` raises it, and the client's message is left unfinished."""
        if not self.done.done():
            self.done.set_exception(error)
        self.stream.failure = Failure("internal", "The gateway failed.")
        self._let_go()

    def _finish(self) -> None:
        self._alarm.clear()
        if not self.done.done():
            self.done.set_result(None)
        self._let_go()

    def _let_go(self) -> None:
        self._alarm.clear()
        if self._slot is not None:
            self._ticker.remove(self, self._slot)
            self._slot = None
        if self._attempt is not None and not self._attempt.done() and self._attempt is not asyncio.current_task():
            self._attempt.cancel()
        if self.client_gone or not self.done.done():
            self._tap.close()
        else:
            self._release_upstream()
