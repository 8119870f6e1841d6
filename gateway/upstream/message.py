"""Owns one HTTP/1.1 response as it is parsed: bytes in; status, headers and the parts of the body out (on llhttp).

Must not know of sockets, loops, clocks or httpx. One object serves one response: a parser that has seen trailers keeps the
last of them and would hand it to the next response as a header.

Invariants: `parts` holds body bytes only, de-chunked, in order. Once `complete`, nothing changes but `surplus`.
What is fed is bounded by its caller's reads; what is kept of head and trailers by `head_bytes`.
Law: RFC 9112 (framing: section 6.3), RFC 9110 (responses without content).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

BROKEN: Final = (HttpParserError, HttpParserUpgrade)  # what `feed` raises


class Message:
    """One response.

    feed: takes bytes or a memoryview of bytes; raises one of BROKEN, after which only `complete` and `problem` matter.
    parts: the body's bytes since the owner last emptied it. The parser appends to it without a Python call.
    status, headers, version: valid once `started`: the final response's, interim ones (1xx) are skipped.
    keep_alive: valid once `complete`: the connection may carry another request.
    surplus: bytes came after the end of the message.
    quiet_bytes: bytes fed since the last body byte; kept by the owner, who bounds with it what the parser holds unseen.
    """

    __slots__ = (
        "_kept_bytes",
        "_parser",
        "_reason",
        "_to_head",
        "complete",
        "feed",
        "head_bytes",
        "headers",
        "keep_alive",
        "on_body",
        "on_status",
        "parts",
        "problem",
        "quiet_bytes",
        "started",
        "status",
        "surplus",
        "version",
    )

    def __init__(self, to_head: bool, head_bytes: int) -> None:
        """to_head: it answers a HEAD request: no body follows, whatever its headers say. head_bytes: the most of a head."""
        self.parts: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.status = 0
        self.version = b"HTTP/1.1"
        self.started = self.complete = self.keep_alive = self.surplus = False
        self.problem: str | None = None
        self.head_bytes = head_bytes
        self.quiet_bytes = 0
        self._kept_bytes = 0
        self._to_head = to_head
        self._reason: list[bytes] = []
        self.on_status = self._reason.append
        self.on_body: Callable[[bytes], None] = self._on_surplus if to_head else self.parts.append
        self._parser: Any = HttpResponseParser(self)
        # Bare LF and blanks after a chunk's size are what hand-written servers send; nothing here is forwarded unparsed, so
        # that no second reader could see another message in the same bytes.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        self.feed: Callable[[bytes], None] = self._parser.feed_data

    @property
    def reason(self) -> bytes:
        return b"".join(self._reason)

    def close(self) -> None:
        """Breaks the cycle with the parser, so that no garbage collection is needed to free either."""
        self.feed = _fed_after_close
        self._parser = None
        self.on_body = _fed_after_close

    def cut(self) -> str | None:
        """What is wrong if the connection ends here; None if that is how this message ends (RFC 9112 6.3, rule 8)."""
        if not self.started:
            where = "without sending a response" if self.quiet_bytes == 0 else "in the middle of the response's head"
            return f"the upstream closed the connection {where}"
        for name, value in self.headers:
            match name.lower():
                case b"content-length":
                    return "the upstream closed the connection before the response was whole (content-length not reached)"
                case b"transfer-encoding" if value.lower().endswith(b"chunked"):
                    return "the upstream closed the connection before the response was whole (last chunk missing)"
        return None

    # What llhttp calls.

    def on_message_begin(self) -> None:
        if self.complete:
            self.surplus = True
            raise ValueError("bytes after the end of the message")  # stops the parser; nothing of the next may mix with this one
        self._reason.clear()  # the one before, if any, was an interim response

    def on_header(self, name: bytes, value: bytes) -> None:
        self._kept_bytes += len(name) + len(value) + 4  # colon, blank and line end
        if self._kept_bytes > self.head_bytes:
            self.problem = f"the head of the upstream's response is larger than {self.head_bytes} bytes"
            raise ValueError(self.problem)
        if not self.started:  # else a trailer: dropped, as it has no place in a response that is passed on while it comes
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self.started:
            return
        status = self._parser.get_status_code()
        if status == 101 or status < 100:
            self.problem = (
                "the upstream switched protocols (101) without being asked to"
                if status == 101
                else f"the upstream answered with the impossible status {status}"
            )
            raise ValueError(self.problem)
        if status < 200:
            return
        self.status = status
        self.version = b"HTTP/" + self._parser.get_http_version().encode("ascii")
        self.started = True
        if self._to_head:
            self.keep_alive = self._parser.should_keep_alive()
            self.complete = True

    def on_message_complete(self) -> None:
        if self.complete:
            return
        if not self.started:
            self.headers.clear()
            self.parts.clear()
            return
        self.keep_alive = self._parser.should_keep_alive()
        self.complete = True

    def _on_surplus(self, data: bytes) -> None:
        self.surplus = True


def _fed_after_close(data: bytes) -> None:
    raise HttpParserError("the message is closed")
