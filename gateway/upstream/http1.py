"""Owns one connection to an upstream and the exchange on it: an asyncio protocol around `Message`.

Must not know how connections are made, kept or chosen (connect.py, pool.py, transport.py), nor what a body means.

Invariants:
- At most one exchange at a time. Only a whole message after a whole upload hands the connection back; any other end closes it.
- One read of the socket makes at most one call of the body's reader, and data goes out before the end.
- A connection that is lost, or that receives anything without an exchange, is reported to its keeper at once.
- Nothing of an exchange is kept after its end: an idle connection has no parser.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx

from .body import Body
from .failures import broken
from .flow import Flow
from .keeper import Keeper, Origin
from .message import BROKEN, Message
from .request import Outgoing
from .upload import at_once, send


class Connection(Flow):
    """HTTP/1.1, on a socket or on what looks like one (secure.py)."""

    __slots__ = (
        "_body",
        "_deliver",
        "_head_bytes",
        "_hold_bytes",
        "_keeper",
        "_message",
        "_timer",
        "_upload",
        "_upload_cut",
        "_waiter",
        "origin",
        "silent",
    )

    def __init__(self, origin: Origin, keeper: Keeper, loop: asyncio.AbstractEventLoop, head_bytes: int, hold_bytes: int) -> None:
        """head_bytes: the most of a response's head. hold_bytes: held for a body's slow reader before reading pauses."""
        super().__init__(loop)
        self.origin = origin
        self.silent = True  # no byte came in the exchange that goes on, or that was the last
        self._keeper = keeper
        self._head_bytes = head_bytes
        self._hold_bytes = hold_bytes
        self._message: Message | None = None
        self._body: Body | None = None
        self._deliver: Callable[[bytes], None] = _nowhere
        self._waiter: asyncio.Future[None] | None = None  # pending until the response's head is there
        self._timer: asyncio.TimerHandle | None = None
        self._upload: asyncio.Task[None] | None = None
        self._upload_cut = False

    # For the transport.

    async def exchange(self, outgoing: Outgoing, request: httpx.Request, read_s: float | None, write_s: float | None) -> httpx.Response:
        """Sends a request and returns its response as soon as the head is there.

        read_s: the longest wait for the head once the request is sent, and of one iteration over the body.
        write_s: the longest that the upstream may take nothing of the request.
        Raises httpx.ReadError, WriteError, RemoteProtocolError, ReadTimeout or WriteTimeout, or what the request's own body
        raised. Then, and when it is cancelled, the connection is closed at once.
        """
        self.silent = True
        self._upload_cut = False
        self._write_s = write_s
        message = self._message = Message(request.method == "HEAD", self._head_bytes)
        body = self._body = Body(self, request, self._hold_bytes, read_s)
        self._deliver = body.hold
        waiter = self._waiter = self._loop.create_future()
        try:
            whole = at_once(outgoing)
            if whole is not None:
                self.write(whole)
                self._expect_head(read_s)
            else:
                # A task that outlives this call where the response's head comes first. It has one owner, this exchange,
                # whose every end cancels it.
                self._upload = self._loop.create_task(send(self, outgoing, request))
                self._upload.add_done_callback(lambda task: self._uploaded(task, read_s))
            await waiter
        except BaseException:
            body.abort()  # closes the connection, unless the exchange is over and the connection another's
            raise
        finally:
            if waiter.done() and not waiter.cancelled():
                waiter.exception()  # seen: who was cancelled in the same turn does not look at it
        return httpx.Response(
            message.status,
            headers=message.headers,
            stream=body,
            request=request,
            extensions={"http_version": message.version, "reason_phrase": message.reason},
        )

    def fail(self, error: Exception) -> None:
        """Ends the exchange, if there is one, with this error, and closes the connection."""
        self._over(error)
        self.drop()

    # For the body.

    def deliver_to(self, take: Callable[[bytes], None]) -> None:
        self._deliver = take

    def drop(self) -> None:
        """Closes the connection at once and tells nobody but the keeper."""
        self._lost = True
        self._release()
        self._keeper.lost(self)
        self._socket.abort()

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._keeper.opened(self)

    def data_received(self, data: bytes) -> None:
        message = self._message
        if message is None:
            self.drop()  # bytes that nobody asked for
            return
        problem = None
        try:
            message.feed(data)
        except BROKEN as error:
            problem = message.problem or f"the upstream's response is not HTTP/1.1: {error}"
        parts = message.parts
        if parts:
            message.quiet_bytes = 0
            chunk = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            self._deliver(chunk)
        else:
            message.quiet_bytes += len(data)
            if message.quiet_bytes > self._head_bytes:
                problem = problem or f"the upstream sent {message.quiet_bytes} bytes of head or trailers without an end"
        if self._waiter is not None:
            self._heard(message)
        if message.complete:
            self._whole(message)
        elif problem is not None:
            self.fail(httpx.RemoteProtocolError(problem))

    def eof_received(self) -> None:
        self._gone(None)
        self._socket.abort()  # close() would wait until the peer has taken what is still to be written

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone(exc)
        self._keeper.closed(self)

    def torn(self, exc: Exception | None) -> None:
        """For TLS: the peer has ended without its notify, or with an error."""
        self._gone(exc, proven=False)

    # The exchange's course.

    def _expect_head(self, read_s: float | None) -> None:
        if read_s is not None and self._waiter is not None:
            self._timer = self._loop.call_later(read_s, self._late, read_s)

    def _late(self, read_s: float) -> None:
        self.fail(httpx.ReadTimeout(f"the upstream did not answer within {read_s:g} s"))

    def _uploaded(self, task: asyncio.Task[None], read_s: float | None) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if task is not self._upload:
            return
        self._upload = None
        if error is None:
            self._expect_head(read_s)
        elif isinstance(error, Exception):
            self.fail(error)

    def _heard(self, message: Message) -> None:
        self.silent = False
        waiter = self._waiter
        if not message.started or waiter is None:
            return
        self._waiter = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not waiter.done():
            waiter.set_result(None)
        if self._upload is not None and message.status >= 300:
            # Refused: nobody wants the rest, and a peer that has closed would answer with a reset that destroys the response.
            self._upload.cancel()
            self._upload = None
            self._upload_cut = True

    def _whole(self, message: Message) -> None:
        body = self._body
        if body is None:
            return  # its reader dropped it with the last data
        reusable = (
            message.keep_alive
            and not message.surplus
            and not self._upload_cut
            and self._upload is None
            and not self._socket.get_write_buffer_size()
            and self.usable
        )
        if reusable:
            self._release()
            self.resume_reading()
            self._keeper.give(self)
        else:
            self.drop()
        body.finish(None)

    def _gone(self, exc: Exception | None, proven: bool = True) -> None:
        """The peer has ended its side, or the connection is broken. proven: the end is the peer's own, nobody's on the way."""
        if self._lost:
            return
        self._lost = True
        self._keeper.lost(self)
        message = self._message
        if message is None:
            return
        if exc is not None:
            self._over(broken(exc, writing=self._upload is not None))
        else:
            problem = message.cut()
            if problem is None and not proven:  # only the notify proves the end of a body without length (RFC 9112, 9.8)
                problem = "the upstream closed TLS without notice in a response without a length: it may be cut"
            self._over(None if problem is None else httpx.RemoteProtocolError(problem))

    def _over(self, error: Exception | None) -> None:
        body, waiter = self._body, self._waiter
        self._release()
        if body is None:
            return
        if isinstance(error, httpx.RequestError):
            error.request = body.request
        if error is not None and waiter is not None and not waiter.done():
            waiter.set_exception(error)
        body.finish(error)

    def _release(self) -> None:
        if self._message is not None:
            self._message.close()
        self._message = self._body = self._waiter = None
        self._deliver = _nowhere
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._upload is not None:
            self._upload.cancel()
            self._upload = None


def _nowhere(chunk: bytes) -> None:
    """Where bytes go that come when nobody reads any more."""
