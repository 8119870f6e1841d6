"""What the protocols of chunks with choices share beside the reading: heartbeats, and answers in the other form than asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from gateway.dialects.base import Dialect, Style
from gateway.dialects.whole import as_completion, as_stream
from gateway.errors import Failure
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event


class Chunked(Dialect):
    """`fallback_id`: for a heartbeat before the upstream has given the stream its name. A subclass sets `_envelope` by its first chunk."""

    has_delta: ClassVar[bool] = True
    object_name: ClassVar[str] = "chat.completion.chunk"

    def __init__(self, fallback_id: str = "") -> None:
        super().__init__()
        self._id = fallback_id
        self._envelope: Members | None = None  # of the first chunk: for chunks of our own

    @classmethod
    def as_stream(cls, media_type: bytes, body: bytes) -> bytes | Failure:
        return as_stream(media_type, body)

    @classmethod
    def gathered(cls, events: Iterable[Event]) -> bytes | Failure:
        return as_completion(events)

    def heartbeat(self, style: Style) -> bytes | None:
        if style != "chunk":
            return None
        envelope = self._envelope or {
            "id": jsontext.quote(self._id),
            "object": jsontext.quote(self.object_name),
            "created": b"0",
            "model": jsontext.quote(self.model or ""),
        }
        delta = b'"delta":{}' if self.has_delta else b'"text":""'
        # whole, since an SDK's helper makes its message of the first chunk's members
        choices = b'[{"index":0,' + delta + b',"logprobs":null,"finish_reason":null}]'
        return b"data: " + jsontext.join({**envelope, "choices": choices}) + b"\n\n"
