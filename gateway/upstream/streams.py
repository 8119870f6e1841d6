"""Owns one exchange on a connection that carries several: the response's head, its body's way to the reader, and how it ends.

Must not know of frames, h2 or sockets: of its connection it knows only what `Carrier` says.

Invariants:
- While its reader waits (`pause_reading`) nothing is pushed; what still comes is held, bounded by the window, and so is the end.
- Reading never stops for the connection: a reader that waits holds up nobody but its own upstream.
- One read of the socket makes at most one call of the reader. After the end or a drop nothing is called any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import httpx

from .body import Body
from .fields import Head, Malformed, of_response
from .windows import Window

PROTOCOL_ERROR: Final = 0x1  # RFC 9113, section 7
FLOW_CONTROL_ERROR: Final = 0x3
CANCEL: Final = 0x8


class Carrier(Protocol):
    """What a stream needs of its connection."""

    def grant(self, stream: Stream) -> None:
        """Opens its window again."""

    def reset(self, stream: Stream, code: int) -> None:
        """Forgets it, as nothing more is wanted of it, and tells the upstream so at once."""


class Stream:
    """`parts` is filled by the frames' reader (frames.Inlet); `take_in` empties it.

    head: of the final response, once it has come. waiter: done with it, or with what kept it from coming.
    """

    __slots__ = (
        "_carrier",
        "_deliver",
        "_end",
        "_got_bytes",
        "_head_bytes",
        "_held",
        "_loop",
        "_paused",
        "_pushed",
        "_to_head",
        "_untaken_bytes",
        "body",
        "head",
        "number",
        "over",
        "parts",
        "reads",
        "sent",
        "timer",
        "upload",
        "waiter",
        "window",
        "writable",
    )

    def __init__(
        self,
        carrier: Carrier,
        loop: asyncio.AbstractEventLoop,
        number: int,
        request: httpx.Request,
        window: Window,
        head_bytes: int,
        hold_bytes: int,
        read_s: float | None,
    ) -> None:
        self.number = number
        self.window = window
        self.parts: list[bytes] = []
        self.head: Head | None = None
        self.over = False  # the connection has let go of it
        self.body = Body(self, request, hold_bytes, read_s)
        self.waiter: asyncio.Future[None] = loop.create_future()
        self.timer: asyncio.TimerHandle | None = None
        self.upload: asyncio.Task[None] | None = None
        self.writable: asyncio.Future[None] | None = None  # pending while the upstream's window is shut
        self.reads = 0  # of the connection, when the request went out
        self.sent = False  # the whole request
        self._carrier = carrier
        self._loop = loop
        self._head_bytes = head_bytes
        self._to_head = request.method == "HEAD"
        self._deliver: Callable[[bytes], None] = self.body.hold
        self._paused = False
        self._held = bytearray()  # came while the reader waited
        self._end: list[Exception | None] = []  # and then the end did
        self._got_bytes = 0
        self._pushed = False
        self._untaken_bytes = 0

    # For the connection.

    def begin(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        """The final response's fields."""
        try:
            self.head = of_response(raw, self._to_head, self._head_bytes)
        except Malformed as problem:
            self.refuse(f"the upstream's response is not valid: {problem}")
            return
        self._stop_timer()
        if not self.waiter.done():
            self.waiter.set_result(None)
        if self.upload is not None and self.head.status >= 300:
            self.upload.cancel()  # refused: nobody wants the rest

    def take_in(self) -> int:
        """Hands on what one read of the socket has brought; gives how much that was."""
        parts = self.parts
        chunk = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        count = len(chunk)
        if self.over or not count:
            return count
        window = self.window
        window.open -= count
        self._got_bytes += count
        head = self.head
        if window.open < 0:
            self.refuse("the upstream sent more than its window allows", FLOW_CONTROL_ERROR)
        elif head is not None and head.length_bytes is not None and self._got_bytes > head.length_bytes:
            self.refuse(f"the upstream's response is longer than the {head.length_bytes} bytes that it may have")
        elif self._paused or self._held:
            self._held += chunk
        else:
            self._hand_over(chunk)
        return count

    def whole(self) -> Exception | None:
        """What is wrong if the body ends here."""
        if self.head is None:
            return httpx.RemoteProtocolError("the upstream ended the stream without sending a response")
        length = self.head.length_bytes
        if length is not None and self._got_bytes < length:
            return httpx.RemoteProtocolError("the upstream ended the response before it was whole (content-length not reached)")
        return None

    def release(self, error: Exception | None) -> None:
        """The connection has forgotten it; whole where there is no error. The reader is told as soon as it takes what is held."""
        self._let_go()
        if isinstance(error, httpx.RequestError):
            error.request = self.body.request
        if error is not None and not self.waiter.done():
            self.waiter.set_exception(error)
        if self._held:
            self._end.append(error)
        else:
            self._finish(error)

    def refuse(self, message: str, code: int = PROTOCOL_ERROR) -> None:
        """The upstream did what HTTP forbids, on this stream."""
        self._carrier.reset(self, code)
        self.release(httpx.RemoteProtocolError(message))

    # For the body.

    def deliver_to(self, take: Callable[[bytes], None]) -> None:
        self._deliver = take
        self._pushed = True

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            if self._held:
                self._loop.call_soon(self._catch_up)  # not from within: the reader may be in the middle of something
        if self._untaken_bytes:
            self._taken(self._untaken_bytes)
            self._untaken_bytes = 0

    def drop(self) -> None:
        self._deliver = _nowhere
        self._held.clear()
        self._end.clear()
        if not self.over:
            self._carrier.reset(self, CANCEL)
            self._let_go()

    def _catch_up(self) -> None:
        if self._paused or not self._held:
            return
        chunk = bytes(self._held)
        self._held.clear()
        self._hand_over(chunk)
        if self._end and not self._held:
            self._finish(self._end.pop())

    def _hand_over(self, chunk: bytes) -> None:
        self._deliver(chunk)
        if self._pushed:
            self._taken(len(chunk))
        else:
            self._untaken_bytes += len(chunk)  # the body keeps it, until its reader says `resume_reading`

    def _taken(self, count: int) -> None:
        if not self.over and self.window.taken(count):
            self._carrier.grant(self)

    def _finish(self, error: Exception | None) -> None:
        self._deliver = _nowhere
        self.body.finish(error)

    def _let_go(self) -> None:
        self.over = True
        self.window.close()
        self._stop_timer()
        if self.upload is not None:
            self.upload.cancel()
            self.upload = None

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def _nowhere(chunk: bytes) -> None:
    """Where bytes go that come when nobody reads any more."""
