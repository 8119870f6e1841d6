"""Owns TLS below a connection: `ssl.MemoryBIO` between the socket's bytes and HTTP's.

To the event loop it is a protocol, to the connection above it the socket. The connection is made when the handshake has ended,
as only then the peer has said which HTTP it speaks (ALPN, RFC 7301).
Must not know which certificates are trusted (tls.py), how the socket came about (connect.py), nor any HTTP.

Why not the loops' own TLS: uvloop 0.23 drops what it has received but not yet delivered when the peer closes without
close_notify while reading is paused (19 of 20 KB in a trial), and neither loop tells how the peer has closed. TLS alone, 100
streams x 100 events/s, an event: uvloop's own 11-13 us with Protocol and BufferedProtocol alike, this 11; asyncio's own 19,
this 12. It holds no read buffer a connection (uvloop: 256 KiB of address space), and behaves the same on every loop.

Invariants: no byte of HTTP goes out before the handshake has ended, with the peer verified by the context; one read of the
socket makes at most one call of the connection's `data_received`; data that came before a close is delivered before it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .keeper import Keeper, Origin

if TYPE_CHECKING:
    from .http1 import Connection
    from .http2 import SharedConnection

# The most plain text of one TLS record (RFC 8446, 5.1), so that one read never leaves half a record inside OpenSSL.
RECORD_BYTES: Final = 16 * 1024

Make = Callable[[str | None], "Connection | SharedConnection"]  # by the protocol that was agreed on, None for none


class Secure(asyncio.Protocol):
    """`secured` is the connection once the handshake has ended, or what that failed with: an ssl.SSLError or a ConnectionError."""

    __slots__ = ("_above", "_incoming", "_keeper", "_make", "_outgoing", "_socket", "_tls", "origin", "secured")

    def __init__(
        self,
        origin: Origin,
        keeper: Keeper,
        loop: asyncio.AbstractEventLoop,
        context: ssl.SSLContext,
        protocols: tuple[str, ...],
        make: Make,
    ) -> None:
        """protocols: offered to the peer, the preferred one first. make: must not raise."""
        self.origin = origin
        self._keeper = keeper
        self._make = make
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        context.set_alpn_protocols(protocols)  # each time: the context is shared, and what shares it offers other protocols
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=origin[1])
        self._above: Connection | SharedConnection | None = None
        self._socket: asyncio.Transport
        self.secured: asyncio.Future[Connection | SharedConnection] = loop.create_future()

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport  # type: ignore[assignment]  # uvloop's is no asyncio.Transport by class
        self._keeper.opened(self)
        self._shake_hands()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if self._above is None:
            self._shake_hands()
            if self._above is None or not self._incoming.pending:
                return
        plain, ended = self._decrypt()
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())  # a key update, or an alert
        above = self._above
        if plain:
            above.data_received(plain)
        if ended is not None:
            if isinstance(ended, EOFError | ssl.SSLZeroReturnError):
                above.eof_received()
            else:
                above.torn(ended)
            self._socket.abort()

    def eof_received(self) -> None:
        if self._above is not None:
            self._above.torn(None)  # without the notify anybody on the way may have closed
        self._socket.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._above is not None:
            self._above.connection_lost(exc)
            return
        self._insecure(exc or ConnectionResetError("the peer closed the connection during the handshake"))
        self._keeper.closed(self)

    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()

    # For the keeper, while there is no connection yet.

    def fail(self, error: Exception) -> None:
        self._insecure(ConnectionAbortedError(str(error)))
        self._socket.abort()

    def drop(self) -> None:
        self._socket.abort()

    # For the connection, whose socket this is.

    def write(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        self._socket.write(self._outgoing.read())

    def abort(self) -> None:
        self._socket.abort()

    def close(self) -> None:
        self._socket.close()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def _decrypt(self) -> tuple[bytes, Exception | None]:
        """The plain bytes of all whole records at hand, and what ended the reading for good."""
        records: list[bytes] = []
        try:
            while self._incoming.pending:  # asking before reading saves the exception that an empty read costs
                record = self._tls.read(RECORD_BYTES)
                if not record:
                    return b"".join(records), EOFError()
                records.append(record)
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still under way
        except ssl.SSLError as error:
            return b"".join(records), error
        return records[0] if len(records) == 1 else b"".join(records), None

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._flush()  # the alert tells the peer why
            self._insecure(error)
            self._socket.abort()
        else:
            self._flush()
            self._above = above = self._make(self._tls.selected_alpn_protocol())
            above.connection_made(self)  # type: ignore[arg-type]  # all of a transport that is used
            self._keeper.closed(self)  # from here on the keeper knows the connection itself
            if not self.secured.done():
                self.secured.set_result(above)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    def _insecure(self, error: Exception) -> None:
        if not self.secured.done():
            self.secured.set_exception(error)
            self.secured.exception()  # seen: who gave up connecting in the same turn does not look at it
