"""Owns the sending side of an HTTP/2 connection: requests, their bodies as far as windows allow, resets and windows; one write a turn.

Must not know what the peer says (http2.py), nor how connections are made or chosen.

The DATA of responses is not h2's here (frames.py reads it at a thirtieth of the cost, windows.py counts it): h2 sees of it only that it
ended. To h2 every response is therefore one to HEAD, which has no body (`request_method`), whatever its content-length says.
Invariants: a stream is in `_streams` from its HEADERS until its end, its reset or the connection's. What is to be said in the middle
of a read of the socket waits for its end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

import httpx
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from .failures import NotProcessed
from .fields import of_request
from .flow import Flow
from .frames import FRAME_BYTES, window_update
from .keeper import Origin
from .literal import Literally
from .request import Outgoing
from .sharing import Sharing
from .streams import CANCEL, Stream
from .upload import AT_ONCE_BYTES, send_on
from .windows import Reserve, Window

# What all streams together may grow by, beyond the window that each has from the beginning.
RESERVE_BYTES: Final = 32 * 1024 * 1024
SLICE_BYTES: Final = 64 * 1024  # of an upload at once, so that streams take turns
LAST_STREAM: Final = 2**30  # of 2^31 that there are


class Outbound(Flow):
    __slots__ = (
        "_h2",
        "_head_bytes",
        "_hold_bytes",
        "_keeper",
        "_leaving",
        "_out",
        "_reserve",
        "_streams",
        "_turn",
        "_window_bytes",
        "origin",
        "reads",
    )

    def __init__(
        self, origin: Origin, keeper: Sharing, loop: asyncio.AbstractEventLoop, head_bytes: int, hold_bytes: int, window_bytes: int
    ) -> None:
        """head_bytes: the most of a response's head. hold_bytes: what a stream may leave unread with us at first, window_bytes:
        what it may come to while its reader keeps up."""
        super().__init__(loop)
        self.origin = origin
        self.reads = 0
        self._keeper = keeper
        self._head_bytes = head_bytes
        self._hold_bytes = hold_bytes
        self._window_bytes = window_bytes
        self._streams: dict[int, Stream] = {}
        self._reserve = Reserve(RESERVE_BYTES)
        self._out: list[bytes] = []  # frames of ours, beside h2's
        self._turn = False  # in the middle of a read
        self._leaving = False  # no new stream here
        self._h2 = machine(head_bytes, hold_bytes)

    # For the streams.

    def grant(self, stream: Stream) -> None:
        self._out.append(window_update(stream.number, stream.window.grant(self._loop.time())))
        self._flush()

    def reset(self, stream: Stream, code: int) -> None:
        self._reset(stream, code)
        self._forget(stream)

    async def some(self, stream: Stream, data: memoryview, write_s: float | None) -> int:
        """Sends the first part of a stream's data, waiting until some may go."""
        h2 = self._h2
        try:
            async with asyncio.timeout(write_s):
                while True:
                    if self._writable is not None:
                        await asyncio.shield(self._writable)  # others wait for it too
                        continue
                    size = min(h2.local_flow_control_window(stream.number), h2.max_outbound_frame_size, SLICE_BYTES)
                    if size > 0:
                        break
                    stream.writable = self._loop.create_future()
                    await stream.writable
        except TimeoutError:
            raise httpx.WriteTimeout(f"the upstream took nothing of the request for {write_s:g} s") from None
        part = data[:size]
        h2.send_data(stream.number, part)
        self._flush()
        return len(part)

    def sent(self, stream: Stream) -> None:
        self._h2.end_stream(stream.number)
        self._flush()

    def _begin(self, outgoing: Outgoing, request: httpx.Request, read_s: float | None, write_s: float | None) -> Stream:
        h2, now = self._h2, self._loop.time()
        number = h2.get_next_available_stream_id()
        content = outgoing.content
        stream = Stream(
            self,
            self._loop,
            number,
            request,
            Window(self._hold_bytes, self._window_bytes, self._reserve, now),
            self._head_bytes,
            self._hold_bytes,
            read_s,
        )
        stream.reads = self.reads
        stream.sent = content == b""
        try:
            h2.send_headers(number, of_request(request, outgoing), end_stream=stream.sent)
        except ProtocolError as error:
            raise NotProcessed(f"the connection takes no more streams: {error}", request=request) from error
        h2.streams[number].request_method = b"HEAD"  # its body is not h2's to count
        self._streams[number] = stream
        if number > LAST_STREAM:
            self._leaving = True
        if content and len(content) <= min(AT_ONCE_BYTES, h2.local_flow_control_window(number)) and self._writable is None:
            size = h2.max_outbound_frame_size
            for at in range(0, len(content), size):
                h2.send_data(number, content[at : at + size], end_stream=at + size >= len(content))
            stream.sent = True
        if stream.sent:
            self._expect_head(stream, read_s)
        else:
            # A task that outlives the exchange's call where the head comes first. The stream owns it: its every end cancels it.
            stream.upload = self._loop.create_task(send_on(Lane(self, stream, write_s), outgoing, request))
            stream.upload.add_done_callback(lambda task: self._uploaded(task, stream, read_s))
        self._flush()
        return stream

    def _uploaded(self, task: asyncio.Task[None], stream: Stream, read_s: float | None) -> None:
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or stream.over:
            return
        stream.upload = None
        if error is None:
            stream.sent = True
            self._expect_head(stream, read_s)
        elif isinstance(error, Exception):
            self.reset(stream, CANCEL)
            stream.release(error)

    def _expect_head(self, stream: Stream, read_s: float | None) -> None:
        if read_s is not None and stream.head is None:
            stream.timer = self._loop.call_later(read_s, self._late, stream, read_s)

    def _late(self, stream: Stream, read_s: float) -> None:
        self.reset(stream, CANCEL)
        stream.release(httpx.ReadTimeout(f"the upstream did not answer within {read_s:g} s"))

    def _reset(self, stream: Stream, code: int) -> None:
        with contextlib.suppress(ProtocolError):  # both sides had ended already
            self._h2.reset_stream(stream.number, code)
        self._flush()

    def _wake(self, streams: Iterable[Stream]) -> None:
        for stream in streams:
            if stream.writable is not None and not stream.writable.done():
                stream.writable.set_result(None)

    def _flush(self) -> None:
        if self._turn or self._lost:
            return
        data = self._h2.data_to_send()
        if self._out:
            data += b"".join(self._out)
            self._out.clear()
        if data:
            self.write(data)

    def _forget(self, stream: Stream) -> None:
        self._streams.pop(stream.number, None)


class Lane:
    """One stream's part of the connection, for its upload."""

    __slots__ = ("_connection", "_stream", "_write_s")

    def __init__(self, connection: Outbound, stream: Stream, write_s: float | None) -> None:
        self._connection = connection
        self._stream = stream
        self._write_s = write_s

    async def some(self, data: memoryview) -> int:
        return await self._connection.some(self._stream, data, self._write_s)

    def end(self) -> None:
        self._connection.sent(self._stream)


def machine(head_bytes: int, window_bytes: int) -> H2Connection:
    h2 = H2Connection(
        H2Configuration(
            client_side=True,
            header_encoding=None,
            validate_outbound_headers=False,  # request.py has done it
            normalize_outbound_headers=False,  # fields.py has
            validate_inbound_headers=False,  # and does
            normalize_inbound_headers=False,
        )
    )
    h2.local_settings = Settings(
        client=True,
        initial_values={
            SettingCodes.ENABLE_PUSH: 0,
            SettingCodes.INITIAL_WINDOW_SIZE: window_bytes,
            SettingCodes.MAX_FRAME_SIZE: FRAME_BYTES,
            SettingCodes.MAX_HEADER_LIST_SIZE: head_bytes,
        },
    )
    h2.encoder = Literally()  # type: ignore[assignment]  # all of an encoder that h2 uses
    # Here a head that is too large is the end of the connection, in fields.py only of its stream: that one is to notice first.
    h2.decoder.max_header_list_size = 4 * head_bytes
    return h2
