"""Owns one HTTP/2 connection to an upstream, which carries several exchanges at once: an asyncio protocol around h2 and `Reader`.

This is its life and its receiving side; outbound.py is the sending side. Must not know how connections are made or chosen (connect.py,
sharing.py, transport.py), nor what a body means (streams.py).

What h2 does: the preface, settings, HPACK, the states of streams, pings, the windows for what we send. What it does not do here:
- DATA: see outbound.py.
- GOAWAY, after which h2 takes no frame any more, although the streams that the upstream has accepted go on (nginx sends it after
  each thousandth request, and when it is reloaded).
- Validation of a response's fields, whose failure h2 makes the whole connection's (fields.py).

Invariant: all of a read is handed on before its end, each stream's part in one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import httpx
from h2.errors import ErrorCodes
from h2.events import (
    Event,
    InformationalResponseReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

from .failures import Unheard, broken, gone_away, stream_reset
from .frames import DATA, END_STREAM, GOAWAY, HEAD_BYTES, BadFrame, Reader, end_of, going_away, payload, window_update
from .keeper import Origin
from .outbound import Outbound
from .request import Outgoing
from .sharing import Sharing
from .streams import Stream

# What all streams together may have under way. The streams' own windows bound what is unread; this one only bounds what a peer may
# send that counts windows wrongly, and a fast path must not wait for it: 100 ms at 1 Gbit/s.
CONNECTION_BYTES: Final = 16 * 1024 * 1024
FIRST_BYTES: Final = 65_535  # a connection's window at its beginning (RFC 9113, 6.9.2)
# A peer that does not read, but sends what must be answered (pings, settings): this many bytes of answers end it.
UNREAD_ANSWERS_BYTES: Final = 256 * 1024
GOODBYE_S: Final = 1.0  # for a peer to take our last frame
DOUBT_S: Final = 1.0  # of silence, after which a request that is given up puts its connection in doubt; typing users give up sooner


class SharedConnection(Outbound):
    """HTTP/2, on a socket or on what looks like one (secure.py)."""

    __slots__ = ("_counted", "_goodbye", "_parted", "_reader")

    def __init__(
        self, origin: Origin, keeper: Sharing, loop: asyncio.AbstractEventLoop, head_bytes: int, hold_bytes: int, window_bytes: int
    ) -> None:
        """See `Outbound`."""
        super().__init__(origin, keeper, loop, head_bytes, hold_bytes, window_bytes)
        self._reader: Reader[Stream] = Reader()
        self._counted = 0  # came, and is not yet given back to the peer
        self._parted = False  # our own last frame has been written
        self._goodbye: asyncio.TimerHandle | None = None

    # For whoever chooses a connection.

    @property
    def busy(self) -> bool:
        return bool(self._streams)

    @property
    def room(self) -> int:
        """How many more streams it takes now."""
        if self._leaving or not self.usable:
            return 0
        # Before its settings have come, h2 takes the peer's limit to be none.
        most = min(self._keeper.streams_at_most(self.origin), self._h2.remote_settings.max_concurrent_streams)
        return most - len(self._streams)

    # For the transport.

    async def exchange(self, outgoing: Outgoing, request: httpx.Request, read_s: float | None, write_s: float | None) -> httpx.Response:
        """Sends a request and returns its response as soon as the head is there. Times and errors are those of http1.Connection,
        and NotProcessed and Unheard besides. Whoever leaves resets the stream, and nothing else."""
        was_busy, begun = self.busy, self._loop.time()
        stream = self._begin(outgoing, request, read_s, write_s)
        if not was_busy:
            self._keeper.busy(self)
        try:
            await stream.waiter
        except BaseException:
            stream.body.abort()
            if stream.reads == self.reads and not self._lost and self._loop.time() - begun >= DOUBT_S:
                self._keeper.doubt(self)
            raise
        finally:
            if stream.waiter.done() and not stream.waiter.cancelled():
                stream.waiter.exception()  # seen: who was cancelled in the same turn does not look at it
        head = stream.head
        assert head is not None  # noqa: S101  # else the waiter holds an error
        return httpx.Response(head.status, headers=head.fields, stream=stream.body, request=request, extensions={"http_version": b"HTTP/2"})

    def fail(self, error: Exception) -> None:
        """Ends all streams with this error, and closes the connection."""
        self._end_all(lambda stream: type(error)(str(error)))
        self.drop()

    def ping(self) -> None:
        self._h2.ping(b"decluster"[:8])
        self._flush()

    def drop(self) -> None:
        """Closes the connection and tells nobody but the keeper. The streams must have been told before."""
        self._keeper.lost(self)
        if self._lost:
            self._socket.abort()
            return
        if not self._parted:
            self._h2.close_connection()
        self._turn = False
        self._flush()
        self._lost = True
        self._socket.close()
        self._goodbye = self._loop.call_later(GOODBYE_S, self._socket.abort)

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._keeper.opened(self)
        self._h2.initiate_connection()
        self._out.append(window_update(0, CONNECTION_BYTES - FIRST_BYTES))
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._lost:
            return
        self.reads += 1
        self._turn = True
        reader, problem = self._reader, None
        try:
            for kind, flags, number, frame in reader.feed(data):
                if kind == DATA:
                    self._data(flags, number, frame)
                elif kind == GOAWAY:
                    self._go_away(*going_away(frame))
                else:
                    for event in self._h2.receive_data(frame):
                        self._told(event)
                if self._lost:
                    break
        except (ProtocolError, BadFrame) as error:
            problem = error
        for stream in reader.touched:
            if stream.parts:
                self._counted += stream.take_in()
        reader.touched.clear()
        self._counted += reader.skipped_bytes
        reader.skipped_bytes = 0
        self._turn = False
        if problem is None and self._counted > CONNECTION_BYTES:
            problem = BadFrame("more than the connection's window allows", ErrorCodes.FLOW_CONTROL_ERROR)
        if problem is not None:
            self._reject(problem)
            return
        if self._counted * 2 >= CONNECTION_BYTES:
            self._out.append(window_update(0, self._counted))
            self._counted = 0
        self._flush()
        if self._writable is not None and self._socket.get_write_buffer_size() > UNREAD_ANSWERS_BYTES:
            self._overwhelmed()

    def eof_received(self) -> None:
        self._gone(None)
        self._socket.abort()

    def torn(self, exc: Exception | None) -> None:
        """For TLS: the peer has ended without its notify, or with an error. Streams have ends of their own: no matter."""
        self._gone(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone(exc)
        if self._goodbye is not None:
            self._goodbye.cancel()
            self._goodbye = None
        self._keeper.closed(self)

    # What the peer says.

    def _data(self, flags: int, number: int, frame: bytes) -> None:
        """DATA that `Reader` does not hand out: ends, padding, and what is not wanted."""
        stream = self._streams.get(number)
        if stream is None:
            if number % 2 == 0 or number >= self._h2.get_next_available_stream_id():
                raise BadFrame("DATA on a stream that was never opened", ErrorCodes.PROTOCOL_ERROR)
            self._counted += len(frame) - HEAD_BYTES  # was under way when the stream was reset
            return
        body = payload(frame, flags)
        padding = len(frame) - HEAD_BYTES - len(body)
        if padding:
            self._counted += padding
            stream.window.open -= padding
            stream.window.taken(padding)
        if body:
            stream.parts.append(body)
        self._counted += stream.take_in()
        if stream.over:
            return
        if stream.head is None:
            stream.refuse("the upstream's response has a body, but no head")
        elif flags & END_STREAM:
            self._h2.receive_data(end_of(number))
            self._ended(stream)

    def _told(self, event: Event) -> None:
        if isinstance(event, RemoteSettingsChanged):
            self._keeper.learned(self.origin, self._h2.remote_settings.max_concurrent_streams)
            self._wake(self._streams.values())
            return
        stream = self._streams.get(getattr(event, "stream_id", 0) or 0)
        if isinstance(event, WindowUpdated):
            self._wake(self._streams.values() if event.stream_id == 0 else () if stream is None else (stream,))
        elif stream is None:
            return  # it was reset, and this was under way
        elif isinstance(event, ResponseReceived | InformationalResponseReceived):
            if isinstance(event, ResponseReceived) or (b":status", b"101") in event.headers:
                stream.begin(event.headers)
            if not stream.over and stream.head is not None:
                self._reader.inlets[stream.number] = stream
        elif isinstance(event, StreamEnded):
            self._counted += stream.take_in()
            if not stream.over:
                self._ended(stream)
        elif isinstance(event, StreamReset):
            self._counted += stream.take_in()
            self._forget(stream)
            stream.release(stream_reset(int(event.error_code), answered=stream.head is not None))

    def _ended(self, stream: Stream) -> None:
        if not stream.sent:
            self._reset(stream, ErrorCodes.NO_ERROR)  # it wants no more of the request
        self._forget(stream)
        stream.release(stream.whole())

    def _go_away(self, last: int, code: int) -> None:
        """It takes no new streams, and those after the last it has not looked at. The others go on."""
        self._leaving = True
        self._keeper.lost(self)
        for stream in [stream for number, stream in self._streams.items() if number > last]:
            self._forget(stream)
            stream.release(gone_away(code))
        self._see_idle()

    def _reject(self, problem: Exception) -> None:
        """The peer does not keep to the protocol: nothing on this connection can be trusted."""
        if isinstance(problem, BadFrame):  # else h2 has said so itself
            self._h2.close_connection(problem.code)
        self._parted = True
        message = f"the upstream's bytes are not HTTP/2: {str(problem) or type(problem).__name__}"
        self.fail(httpx.RemoteProtocolError(message))

    def _overwhelmed(self) -> None:
        self.fail(httpx.RemoteProtocolError("the upstream asks for answers that it does not read"))

    def _gone(self, exc: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._keeper.lost(self)
        self._end_all(lambda stream: self._why(stream, exc))

    def _why(self, stream: Stream, exc: Exception | None) -> Exception:
        if stream.reads == self.reads and stream.reads and stream.head is None:
            return Unheard("the upstream had closed the connection when the request was sent")
        if exc is None:
            return httpx.ReadError("the upstream closed the connection in the middle of the exchange")
        return broken(exc, writing=not stream.sent)

    def _forget(self, stream: Stream) -> None:
        super()._forget(stream)
        self._reader.inlets.pop(stream.number, None)
        self._see_idle()

    def _see_idle(self) -> None:
        if self._streams or self._lost:
            return
        if self._leaving:
            self.drop()
        else:
            self._keeper.idle(self)

    def _end_all(self, error: Callable[[Stream], Exception]) -> None:
        streams = list(self._streams.values())
        self._streams.clear()
        self._reader.inlets.clear()
        for stream in streams:
            stream.release(error(stream))
