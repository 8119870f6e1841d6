"""One streamed answer: where the pure machine meets IO.

Owns the pump in both directions, the timers and the ending of one stream; its attempts are relay/pursuit's. Everything here happens in
callbacks of the event loop: bytes from the upstream are decoded, paced and written in the turn in which they came.

Invariants: the response begins once, with a status that is true: 200 only when content or a heartbeat leaves. The upstream is let go of in
the turn in which the client leaves. While the client does not read, nothing is queued beyond the bound and no heartbeat at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx

from gateway.clock import FAR_S, Ticker
from gateway.dialects.base import Dialect
from gateway.errors import Failure
from gateway.relay.channel import Direct, Send
from gateway.relay.failures import in_the_answer
from gateway.relay.opening import Opening
from gateway.relay.outlet import Outlet
from gateway.relay.pursuit import Mending, Pursuit
from gateway.relay.tries import Tries
from gateway.relay.vigil import Vigil
from gateway.settings import Settings
from gateway.stream import Phase, Stream
from gateway.wire import headers


class Exchange:
    """Drive it with `run`; read `stream`, `status` and `client_gone` afterwards."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ticker: Ticker,
        stream: Stream,
        send: Send,
        settings: Settings,
        request_id: bytes,
        direct: Direct | None = None,
    ) -> None:
        self.stream = stream
        self._passed_status = 0
        self.client_gone = self.stalled = False  # stalled: gone, because it took nothing for clocks.client_stall
        self.mending: Mending | None = None  # for a stream that may go on after its upstream died
        self.spent: Callable[[float], Failure | None] | None = None  # told the tokens that have come: the budget that they use up
        self._loop = loop
        self._ticker = ticker
        self._outlet = Outlet(loop, send, request_id, self._drained, self.leave, direct)
        self._limits = settings.limits
        self._drops_oldest = settings.overflow == "drop_oldest"
        self._slot: int | None = None
        self._vigil = Vigil(loop, stream, self._outlet, settings.clocks.client_stall, self)
        self._pursuit: Pursuit | None = None
        self._committed = False
        self._fault: BaseException | None = None  # as an exception of `done` it would come without its traceback, once compiled
        self._passing: Callable[[httpx.Response], Awaitable[None]] | None = None
        self.opening = Opening(stream)
        self.done: asyncio.Future[None] = loop.create_future()

    @property
    def status(self) -> int:
        """Of the response; 0 until it has begun."""
        return self._outlet.status or self._passed_status

    async def run(
        self,
        tries: Tries,
        passing: Callable[[httpx.Response], Awaitable[None]],
        renewed: Callable[[], Dialect],
        response: httpx.Response | None = None,
    ) -> None:
        """Stream `response`, or what the tries bring. `passing` takes over what passes as it is; `renewed`: a next attempt's dialect."""
        self._passing = passing
        self._pursuit = Pursuit(self._loop, tries, self, self._limits.event_bytes, renewed, self.mending)
        self._pursuit.begin(response)
        self._arm()
        try:
            await self.done
            if self._fault is not None:
                raise self._fault
        finally:
            self._let_go()
            self._outlet.close()
            self._vigil.close()
            if self.client_gone or not self.done.done() or self.done.cancelled():
                tries.left()
            else:
                tries.over(self.stream.failure)
            # So that all of it is freed at once, and not by the garbage collector.
            self._pursuit = self.spent = self.mending = self._passing = self._fault = None

    async def answered(self, response: httpx.Response | Failure) -> None:
        if isinstance(response, Failure):
            self.failed(response)
            return
        if self._passing is not None and not 200 <= response.status_code < 300 and not self._outlet.status and not self._committed:
            self._vigil.clear()  # from here on it is a plain answer, without heartbeats
            self._passed_status = response.status_code
            self.stream.failure = Failure("upstream_error", "the upstream refused", response.status_code)
            try:
                await self._passing(response)
            except httpx.TransportError as error:  # and the client's message is left unfinished, which tells it so
                self.stream.failure = in_the_answer(error)
            self._finish()
            return
        self._outlet.fields = headers.of_a_stream(response.headers.raw)
        if not self.stream.dialect.closes:
            self._outlet.begin(response.status_code)
            self.stream.begin(self._loop.time())
            self._arm()
        if self._pursuit is not None:
            self._pursuit.take(response)
        if not self.stream.wants_upstream:  # all of it had come already
            self._release_upstream()

    def arrived(self, data: bytes) -> None:
        now = self._loop.time()
        stream, outlet = self.stream, self._outlet
        frame = None
        if not self._committed:
            self.opening.read(now, data, self._flush)
        elif not outlet.blocked and not outlet.over:
            frame = stream.through(now, data)
        else:
            stream.receive(now, data)
        if frame:
            outlet.frame(frame)
        if self.spent is not None and stream.wants_upstream and (failure := self.spent(stream.arrived.tokens)) is not None:
            self.failed(failure)
            return
        if frame is None:
            self._flush(now)
        elif self._slot is None and stream.pacing:
            self._await_frame(now)
        if stream.closes_soon:
            self._arm()
        if stream.held_bytes > self._limits.stream_bytes:
            self._overflow(now)

    def ended(self, failure: Failure | None) -> None:
        now = self._loop.time()
        self.stream.upstream_ended(now, failure)
        self._flush(now)

    def _overflow(self, now: float) -> None:
        """More is held than the bound allows: it goes to a client that takes it; else the upstream waits, or the oldest is dropped."""
        if not self._outlet.blocked:
            self.stream.pacer.quicken(self._limits.stream_bytes // 2)
            self._flush(now)
        elif self._drops_oldest:
            self.stream.shed(now, self._limits.stream_bytes // 2)
        elif self._pursuit is not None:
            self._pursuit.tap.pause()

    # The client's side

    def on_tick(self, now: float) -> bool:
        """Asked each frame while tokens are held."""
        try:  # there is nobody above who could be told of a fault
            if not self._outlet.blocked:
                self._flush(now)
            if self._slot is not None and self.stream.next_frame() > now + FAR_S:
                self._slot = None
                self._arm()
        except Exception as error:
            self.crashed(error)
        return self._slot is not None

    def leave(self) -> None:
        """The client has gone."""
        if not self.done.done():
            self.client_gone = True
            self._finish()

    def give_up(self, failure: Failure) -> None:
        """Nobody is there any more, which is no fault of the upstream's: end with this failure."""
        self.client_gone = True
        self.failed(failure)

    def shut_down(self) -> None:
        """The grace is over: end with an honest error."""
        self.failed(Failure("shutting_down", "The gateway is shutting down and could not finish this answer. Ask again."))

    def _flush(self, now: float) -> None:
        """Write what is due, and see to the ends of both sides."""
        stream, outlet = self.stream, self._outlet
        if self.done.done() or outlet.over:
            return
        if stream.phase is Phase.HOLDING:
            if stream.failure is not None:
                self._try_again(now, stream.failure)
            return
        if not self._committed and self._pursuit is not None:
            self._committed = True
            self._pursuit.tries.answered()
            self._arm()  # silence counts from here on, and may be nearer than the next heartbeat
        if stream.phase is Phase.SEVERED and self._pursuit is not None and self._pursuit.mended(now):
            self._arm()
        if not outlet.blocked:
            frame = stream.due(now)
            while frame:
                outlet.frame(frame)
                frame = stream.due(now) if stream.splits and not outlet.blocked else b""
            if stream.phase is Phase.ENDED and not outlet.blocked:
                outlet.end(self._finish)
        if not stream.wants_upstream:
            self._release_upstream()
        elif self._pursuit is not None and self._pursuit.tap.paused and stream.held_bytes < self._limits.stream_bytes // 2:
            self._pursuit.tap.resume()
        if outlet.over:
            self._arm()
        elif self._slot is None and stream.pacing:
            self._await_frame(now)

    def _await_frame(self, now: float) -> None:
        """Something is held: be asked for it when its time has come."""
        at = self.stream.next_frame()
        if at <= now + FAR_S:
            self._slot = self._ticker.add(self)
        elif self._outlet.blocked:
            self._arm()
        else:
            self._vigil.wake(at)

    def _drained(self) -> None:
        now = self._loop.time()
        self.stream.waited_for_client(now)
        self._flush(now)

    def failed(self, failure: Failure) -> None:
        now = self._loop.time()
        self.stream.fail(now, failure)
        if not self.done.done():
            self._flush(now)

    def _try_again(self, now: float, failure: Failure) -> None:
        """A failure before any content: another attempt takes its place, or it is the answer."""
        if self.client_gone or self._pursuit is None or not self._pursuit.tried_again(failure):
            self._refuse(now, failure)
            return
        self._outlet.fields = headers.STREAM_FIELDS
        self._arm()

    def _refuse(self, now: float, failure: Failure) -> None:
        """A failure before any content: a status if the response has not begun, else an event."""
        self._release_upstream()
        if self._pursuit is not None:
            failure = self._pursuit.tries.last_words(failure)
        if self._outlet.status:
            self.stream.tell(now)
            self._flush(now)
            return
        self._outlet.whole(failure.http_status, self.stream.dialect.error_body(failure), list(failure.headers), self._finish)

    # Timers and ends

    def _arm(self) -> None:
        if not self.done.done():
            self._vigil.arm(ticked=self._slot is not None)

    def woken(self, now: float) -> None:
        """A slow clock has rung."""
        self._flush(now)
        self._arm()

    def stall(self) -> None:
        """The client takes nothing: it is let go of."""
        self.stalled = True
        self.leave()

    def _release_upstream(self) -> None:
        """It is not wanted any more. After a whole answer its connection can be used again, so the message's end is waited for."""
        if self._pursuit is not None:
            self._pursuit.release(self.stream.failure is None and self.stream.phase in (Phase.CLOSING, Phase.ENDED))

    def crashed(self, error: BaseException) -> None:
        """A fault of ours in a callback: `run` raises it, and the client's message is left unfinished."""
        self._fault = self._fault or error
        self.stream.failure = Failure("internal", "The gateway failed.")
        self._finish()

    def _finish(self) -> None:
        self._vigil.clear()
        if not self.done.done():
            self.done.set_result(None)
        self._let_go()

    def _let_go(self) -> None:
        self._vigil.clear()
        if self._slot is not None:
            self._ticker.remove(self, self._slot)
            self._slot = None
        if self._pursuit is not None and (self.client_gone or not self.done.done() or self.stream.failure is not None):
            self._pursuit.stop()
        else:
            self._release_upstream()
