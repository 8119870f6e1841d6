"""Event streams of paths whose protocol is not known here: relayed event by event, untouched and unpaced.

The end of the body is all the proof there is.
"""

from __future__ import annotations

from typing import ClassVar

from gateway.dialects.base import Dialect, Style, error_body, structure
from gateway.errors import Failure
from gateway.piece import Piece
from gateway.wire import jsontext
from gateway.wire.sse import Event


class Plain(Dialect):
    name: ClassVar[str] = "plain"
    operation: ClassVar[str] = "other"
    closes: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.proven = True

    def read(self, event: Event) -> list[Piece]:
        self.committed = True
        return [structure(event.raw)]

    def close(self) -> list[Piece]:
        self.ended = True
        return []

    def fail(self, failure: Failure) -> Piece:
        return structure(b"event: error\ndata: " + jsontext.one_line(error_body(failure)) + b"\n\n")

    def heartbeat(self, style: Style) -> bytes | None:
        return None
