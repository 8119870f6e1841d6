"""Owns TLS below a connection: `ssl.MemoryBIO` between the socket's bytes and HTTP's.

Must not know which certificates are trusted (tls.py) or how the socket came about (connect.py).

Why not the loops' own TLS: uvloop 0.23 drops what it has received but not yet delivered when the peer closes without
close_notify while reading is paused (19 of 20 KB in a trial), and neither loop tells how the peer has closed. TLS alone, 100
streams x 100 events/s, an event: uvloop's own 11-13 us with Protocol and BufferedProtocol alike, this 11; asyncio's own 19,
this 12. It holds no read buffer a connection (uvloop: 256 KiB of address space), and behaves the same on every loop.

Invariants: no byte of HTTP goes out before the handshake has ended, with the peer verified by the context; one read of the
socket makes at most one call of `Connection.data_received`; data that came before a close is delivered before it.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from .http1 import Connection
from .keeper import Keeper, Origin
from .message import Message

# The most plain text of one TLS record (RFC 8446, 5.1), so that one read never leaves half a record inside OpenSSL.
RECORD_BYTES: Final = 16 * 1024


class SecureConnection(Connection):
    """`secured` is done once the handshake has ended, or holds what it failed with: an ssl.SSLError or a ConnectionError."""

    __slots__ = ("_closed_by_notify", "_incoming", "_outgoing", "_secure", "_tls", "secured")

    def __init__(
        self,
        origin: Origin,
        keeper: Keeper,
        loop: asyncio.AbstractEventLoop,
        head_bytes: int,
        hold_bytes: int,
        context: ssl.SSLContext,
    ) -> None:
        super().__init__(origin, keeper, loop, head_bytes, hold_bytes)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=origin[1])
        self._secure = False
        self._closed_by_notify = False
        self.secured: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._shake_hands()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if not self._secure:
            self._shake_hands()
            if not self._secure or not self._incoming.pending:
                return
        plain, ended = self._decrypt()
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())  # a key update, or an alert
        if plain:
            super().data_received(plain)
        if ended is not None and not self._lost:
            self._gone(None if self._closed_by_notify else ended)
            self._socket.abort()

    def write(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        self._socket.write(self._outgoing.read())

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.secured.done():
            self._insecure(exc or ConnectionResetError("the peer closed the connection during the handshake"))
        super().connection_lost(exc)

    def _decrypt(self) -> tuple[bytes, Exception | None]:
        """The plain bytes of all whole records at hand, and what ended the reading for good."""
        records: list[bytes] = []
        try:
            while self._incoming.pending:  # asking before reading saves the exception that an empty read costs
                record = self._tls.read(RECORD_BYTES)
                if not record:
                    self._closed_by_notify = True
                    return b"".join(records), EOFError()
                records.append(record)
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still under way
        except ssl.SSLZeroReturnError as error:
            self._closed_by_notify = True
            return b"".join(records), error
        except ssl.SSLError as error:
            return b"".join(records), error
        return records[0] if len(records) == 1 else b"".join(records), None

    def _cut(self, message: Message) -> str | None:
        # Anybody on the way can close TCP: only the notify proves the end of a body without length (RFC 9112, 9.8).
        if not self._closed_by_notify and message.cut() is None:
            return "the upstream closed TLS without notice in a response without a length: it may be cut"
        return message.cut()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._flush()  # the alert tells the peer why
            self._insecure(error)
            self.drop()
            return
        else:
            self._secure = True
            if not self.secured.done():
                self.secured.set_result(None)
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    def _insecure(self, error: Exception) -> None:
        if not self.secured.done():
            self.secured.set_exception(error)
            self.secured.exception()  # seen: who gave up connecting in the same turn does not look at it
