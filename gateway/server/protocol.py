"""uvicorn's HTTP protocol, mended where a proxy needs more of it.

llhttp stops parsing at an upgrade that is asked for, and with it a request's body is lost. Java's HTTP client, among others, offers h2c
with each request. RFC 9110, 7.8: a server that does not upgrade goes on as if nothing had been asked. So an `Upgrade` that is no WebSocket
is taken out of the head before it is parsed.

A stream's frames do not go through `send`: among the scope's extensions, under DIRECT, `body` gives a shorter way (cork.py). A response's
head waits for what follows it in the same turn, so that a short answer is one write, and so is a stream's head with its first token.

HTTP/1.0 knows no chunks (RFC 9112, 6.1): such a client's answer ends with the connection, and one that is cut with a reset.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final
from weakref import ref

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gateway.server.cork import Cork, Short
from gateway.server.incoming import Incoming

_OFFER: Final = re.compile(rb"\r\nupgrade:(?![ \t]*websocket[ \t]*\r\n)[^\r\n]*(?=\r\n)", re.IGNORECASE)


DIRECT: Final = "decluster.body"


class _Open(int):
    """A content length that any body has."""

    def __sub__(self, other: int) -> _Open:
        return self

    def __ne__(self, other: object) -> bool:
        return False


def _body_of(cycle: ref[RequestResponseCycle], cork: Cork) -> Short | None:
    found = cycle()
    return None if found is None else Short(found, cork)


def _lacks(cycle: ref[RequestResponseCycle]) -> bool:
    found = cycle()
    return found is not None and found.response_started and not found.response_complete


class Protocol(Incoming):
    """A head that comes in several reads is passed as it is: clients that make such offers send theirs in one."""

    def data_received(self, data: bytes) -> None:
        if b"pgrade:" in data and self.in_head and (self.cycle is None or self.cycle.response_complete):
            head, end, rest = data.partition(b"\r\n\r\n")
            data = _OFFER.sub(b"", head + b"\r\n")[: -len(b"\r\n")] + end + rest if end else data
        super().data_received(data)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0":
            self.cycle.chunked_encoding, self.cycle.expected_content_length, self.cycle.keep_alive = False, _Open(2**62), False
        if self.cycle is not None:
            self.cycle.transport = cork = Cork(self.transport, self.loop)  # type: ignore[assignment]  # all of it that a cycle uses
            # weak: the cycle holds the scope and the cork, and what holds itself is left to the garbage collector
            if self.scope["http_version"] == "1.0":
                cork.lacks = partial(_lacks, ref(self.cycle))
            self.scope["extensions"] = {DIRECT: {"body": partial(_body_of, ref(self.cycle), cork)}}
