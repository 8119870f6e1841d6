"""Halves of surrogate pairs in the texts of chunks, tool arguments included.

The first half waits for its other half and leaves with it. One that never finds it leaves as the escape that it came as.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.chunks import Chunk, function_of, text_of
from gateway.dialects.pairs import Pairs
from gateway.wire import jsontext
from gateway.wire.jsontext import Members

_LEGACY: Final = "function_call"


class Halves:
    """At most one half for each text of each choice."""

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs: Pairs[tuple[int, str, bytes]] = Pairs()  # choice, member, index of the call

    @property
    def waiting(self) -> bool:
        return bool(self._pairs)

    def join(self, chunk: Chunk) -> None:
        for name, _ in chunk.texts:
            self._join(chunk, chunk.delta, name, (chunk.index, name, b""))
        if not chunk.has_delta:
            return
        calls = chunk.calls()
        joined = [self._join_function(chunk, call, "function", (chunk.index, "tool_calls", call.get("index", b"0"))) for call in calls]
        if any(joined):
            chunk.set_calls(calls)
        self._join_function(chunk, chunk.delta, _LEGACY, (chunk.index, _LEGACY, b""))

    def _join(self, chunk: Chunk, where: Members, name: str, key: tuple[int, str, bytes]) -> bool:
        text = text_of(where.get(name))
        joined = self._pairs.join(key, text, last=chunk.finish)  # behind a finish reason nothing may leave
        if joined == text:
            return False
        where[name] = jsontext.quote(joined)
        chunk.changed = True
        return True

    def _join_function(self, chunk: Chunk, where: Members, name: str, key: tuple[int, str, bytes]) -> bool:
        function = function_of({"function": where.get(name, b"")})
        if not self._join(chunk, function, "arguments", key):
            return False
        where[name] = jsontext.join(function)
        return True

    def rest(self, envelope: Members, has_delta: bool) -> list[bytes]:
        """Events with the halves that are left."""
        out = []
        for (index, name, call), half in self._pairs.take_all():
            function = jsontext.join({"arguments": jsontext.quote(half)})
            if name == "tool_calls":
                text = {name: jsontext.array([jsontext.join({"index": call, "function": function})])}
            else:
                text = {name: function if name == _LEGACY else jsontext.quote(half)}
            inner = {"delta": jsontext.join(text)} if has_delta else text
            choice = jsontext.join({"index": b"%d" % index, **inner, "finish_reason": b"null"})
            out.append(b"data: " + jsontext.join({**envelope, "choices": b"[" + choice + b"]"}) + b"\n\n")
        return out
