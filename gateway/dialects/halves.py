"""Halves of surrogate pairs: an upstream that cuts in UTF-16 can end a delta between the two, and half a pair is no character.

The first half waits for its other half and leaves with it. One that never finds it leaves as the escape that it came as.
"""

from __future__ import annotations

from gateway.dialects.chunks import Chunk, text_of
from gateway.wire import jsontext
from gateway.wire.jsontext import Members


class Halves:
    """At most one half for each text of each choice."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, str], str] = {}

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def join(self, chunk: Chunk) -> None:
        for name, _ in chunk.texts:
            text = text_of(chunk.delta.get(name))
            if not text:
                continue
            waiting = self._waiting.pop((chunk.index, name), "")
            if waiting:
                text = (waiting + text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            if "\ud800" <= text[-1] <= "\udbff" and not chunk.finish:  # behind a finish reason nothing may leave
                self._waiting[chunk.index, name] = text[-1]
                text = text[:-1]
            elif not waiting:
                continue
            chunk.delta[name] = jsontext.quote(text)
            chunk.changed = True

    def rest(self, envelope: Members, has_delta: bool) -> list[bytes]:
        """Events with the halves that are left."""
        out = []
        for (index, name), half in self._waiting.items():
            text = {name: jsontext.quote(half)}
            inner = {"delta": jsontext.join(text)} if has_delta else text
            choice = jsontext.join({"index": b"%d" % index, **inner, "finish_reason": b"null"})
            out.append(b"data: " + jsontext.join({**envelope, "choices": b"[" + choice + b"]"}) + b"\n\n")
        self._waiting.clear()
        return out
