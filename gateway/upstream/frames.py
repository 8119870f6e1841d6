"""Owns the cutting of HTTP/2's bytes into frames, and the payload of DATA in particular, which it hands out as it comes.

Pure: no sockets, clocks or h2. A burst of 80 events is 80 DATA frames in one read, and h2 takes 9 us for each (parsing, two state
machines, windows, an event); here it is 0.3. Nor does a payload wait until its frame is whole, as it would with h2.

Invariants: each byte of a DATA payload is given once and in order; padding is never given. Of what is no DATA's payload at most one
frame of `FRAME_BYTES` is held; an unpadded DATA frame may be longer, as only windows bound it. All other frames come out whole, in
their place between the DATA.
Law: RFC 9113, sections 4 and 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, Generic, Protocol, TypeVar

FRAME_BYTES: Final = 16 * 1024  # the most of a frame: HTTP/2's own default, and no other is asked for
HEAD_BYTES: Final = 9

DATA: Final = 0x0
HEADERS: Final = 0x1
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8

_HEAD: Final = Struct(">IBI")  # length and type in one number, flags, stream
_WINDOW: Final = Struct(">IBII")
_LAST_AND_CODE: Final = Struct(">II")
_NUMBER: Final = 0x7FFF_FFFF  # a stream's number without the reserved bit

Frame = tuple[int, int, int, bytes]  # type, flags, stream, and all its bytes with the head; of a known stream's DATA the head only


class BadFrame(Exception):
    """The peer's bytes are no HTTP/2. code: of RFC 9113, section 7, as told to the peer."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Inlet(Protocol):
    """Where the payloads of a stream's DATA go: `parts` is emptied by its owner after each read."""

    parts: list[bytes]


To = TypeVar("To", bound=Inlet)


class Reader(Generic[To]):
    """inlets: of streams whose DATA is wanted, by number; the owner adds and removes them. touched: those with new parts.
    skipped_bytes: of payloads whose stream was removed in their middle; the owner counts them, as windows do."""

    __slots__ = ("_block", "_ended", "_inlet", "_left_bytes", "_number", "_rest", "inlets", "skipped_bytes", "touched")

    def __init__(self) -> None:
        self.inlets: dict[int, To] = {}
        self.touched: list[To] = []
        self.skipped_bytes = 0
        self._rest = b""
        self._left_bytes = 0  # of a DATA payload whose first part has been given
        self._number = 0  # its stream
        self._inlet: To | None = None
        self._ended = False  # it ends its stream
        self._block = 0  # the stream whose header block is not over: nothing else may come

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Payloads go to the inlets. What else came is yielded: other frames, DATA of unknown streams or with padding, whole; and
        for the end of a known stream its DATA frame without payload, after the payload was given. Raises BadFrame."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        at, end = 0, len(data)
        if self._left_bytes:
            at = min(self._left_bytes, end)
            self._left_bytes -= at
            self._give(data[:at])
            if self._left_bytes:
                return
            if self._ended:
                yield self._end()
        inlets, unpack = self.inlets, _HEAD.unpack_from
        last = end - HEAD_BYTES
        while at <= last:
            head, flags, number = unpack(data, at)
            start = at + HEAD_BYTES
            stop = start + (head >> 8)
            if head & 0xFF == DATA and not flags & PADDED and not self._block and (inlet := inlets.get(number)) is not None:
                if not inlet.parts:
                    self.touched.append(inlet)
                add, first = inlet.parts.append, number
                while not flags & END_STREAM and stop <= end:  # what nearly all is: a run of one stream's payloads
                    add(data[start:stop])
                    at = stop
                    if at > last:
                        break
                    head, flags, number = unpack(data, at)
                    if number != first or head & 0xFF or flags & PADDED:
                        break
                    start = at + HEAD_BYTES
                    stop = start + (head >> 8)
                else:
                    self._number, self._inlet, self._ended = number, inlet, bool(flags & END_STREAM)
                    self._left_bytes = max(stop - end, 0)
                    add(data[start:stop])
                    at = min(stop, end)
                    if not self._left_bytes:
                        yield self._end()
                continue
            self._check(head)
            if stop > end:
                break
            kind = head & 0xFF
            if self._block or kind in (HEADERS, CONTINUATION):
                self._follow(kind, flags, number & _NUMBER)
            yield kind, flags, number & _NUMBER, data[at:stop]
            at = stop
        self._rest = data[at:]

    def _check(self, head: int) -> None:
        if head >> 8 > FRAME_BYTES:
            raise BadFrame(f"a frame of {head >> 8} bytes, more than the {FRAME_BYTES} that were allowed", 0x6)

    def _give(self, part: bytes) -> None:
        inlet = self._inlet
        if inlet is None or self.inlets.get(self._number) is not inlet:
            self.skipped_bytes += len(part)
            return
        if not inlet.parts:
            self.touched.append(inlet)
        inlet.parts.append(part)

    def _end(self) -> Frame:
        self._inlet, self._ended = None, False
        return DATA, END_STREAM, self._number, end_of(self._number)

    def _follow(self, kind: int, flags: int, stream: int) -> None:
        """A header block is one run of frames of one stream."""
        if self._block and (kind != CONTINUATION or stream != self._block):
            raise BadFrame("a frame in the middle of a header block", 0x1)
        self._block = 0 if flags & END_HEADERS else stream


def payload(frame: bytes, flags: int) -> bytes:
    """Of a whole DATA frame, without padding. Raises BadFrame."""
    if not flags & PADDED:
        return frame[HEAD_BYTES:]
    padding = frame[HEAD_BYTES] if len(frame) > HEAD_BYTES else 0
    if len(frame) < HEAD_BYTES + 1 + padding:
        raise BadFrame("more padding than frame", 0x1)
    return frame[HEAD_BYTES + 1 : len(frame) - padding]


def end_of(stream: int) -> bytes:
    """A DATA frame that only ends its stream."""
    return _HEAD.pack(DATA, END_STREAM, stream)


def window_update(stream: int, increment: int) -> bytes:
    return _WINDOW.pack(4 << 8 | WINDOW_UPDATE, 0, stream, increment)


def going_away(frame: bytes) -> tuple[int, int]:
    """Of a whole GOAWAY frame: the last stream that was or will be processed, and the error's code. Raises BadFrame."""
    if len(frame) < HEAD_BYTES + 8:
        raise BadFrame("a GOAWAY frame that is too short", 0x6)
    last, code = _LAST_AND_CODE.unpack_from(frame, HEAD_BYTES)
    return last & _NUMBER, code
