"""The deltas of a stream's choice, added up to the choice of one whole answer.

Values stay in their own bytes (a number keeps its digits), save the strings that come in pieces. What is added up how depends on where
it stands: in a delta most lists go on and the texts below are strung together; any other value replaces the one before.
"""

from __future__ import annotations

from typing import Final

from gateway.wire import jsontext
from gateway.wire.jsontext import Members

_ARGUMENTS: Final = frozenset({"arguments"})
_CUSTOM: Final = frozenset({"input"})
# Member of a delta, or of an object in it -> those of its strings that come in pieces.
_PIECES: Final = {
    "message": frozenset({"content", "reasoning_content", "reasoning", "thinking", "refusal"}),
    "audio": frozenset({"data", "transcript"}),
    "function_call": _ARGUMENTS,
    "function": _ARGUMENTS,
    "custom": _CUSTOM,
}
_NULL: Final = b"null"


class Sum:
    """An object that grows. `name`: of the member that it is."""

    __slots__ = ("_lists", "_objects", "_order", "_pieces", "_texts", "_values")

    def __init__(self, name: str = "") -> None:
        self._pieces = _PIECES.get(name, frozenset())
        self._order: dict[str, None] = {}
        self._values: Members = {}
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[bytes]] = {}
        self._objects: dict[str, Sum] = {}

    def add(self, items: Members) -> None:
        for key, raw in items.items():
            if raw == _NULL:
                continue
            self._order.setdefault(key)
            if raw.startswith(b"{"):
                if key not in self._objects:
                    self._objects[key] = Sum(key)
                self._objects[key].add(jsontext.members(raw))
            elif raw.startswith(b"["):
                listed = self._lists.setdefault(key, [])
                texts = self._texts.pop(key, None)
                if texts and any(texts):  # content that goes on in parts
                    listed.append(_part(texts))
                listed += jsontext.elements(raw)
            elif key in self._pieces:
                self._add_piece(key, raw)
            elif raw != b'""' or key not in self._values:
                self._values[key] = raw

    def _add_piece(self, key: str, raw: bytes) -> None:
        text = str(jsontext.value(raw)) if raw.startswith(b'"') else raw.decode("utf-8", "replace")
        if key not in self._lists:
            self._texts.setdefault(key, []).append(text)
        elif text:
            self._lists[key].append(_part([text]))

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def members(self) -> Members:
        out: Members = {}
        for key in self._order:
            if key in self._texts:
                out[key] = jsontext.quote("".join(self._texts[key]))
            elif key in self._lists:
                out[key] = jsontext.array(self._lists[key])
            elif key in self._objects:
                out[key] = jsontext.join(self._objects[key].members())
            else:
                out[key] = self._values[key]
        return out


class Choice:
    """One choice: what it has beside its message, the message, and the calls in it."""

    __slots__ = ("_calls", "_index", "_message", "_own", "_text")

    def __init__(self, index: int) -> None:
        self._index = index
        self._own = Sum()
        self._text: list[str] | None = None
        self._message: Sum | None = None
        self._calls: dict[int, Sum] = {}

    @property
    def finished(self) -> bool:
        return self._own.get("finish_reason") not in (None, b'""')

    def add(self, items: Members) -> None:
        delta = items.get("delta", _NULL)
        self._own.add({key: raw for key, raw in items.items() if key not in ("delta", "index", "text")})
        if items.get("text", b"").startswith(b'"'):
            self._text = self._text or []
            self._text.append(str(jsontext.value(items["text"])))
        if not delta.startswith(b"{"):
            return
        members = jsontext.members(delta)
        calls = members.pop("tool_calls", _NULL)
        self._message = self._message or Sum("message")
        self._message.add(members)
        if calls.startswith(b"["):
            for position, call in enumerate(jsontext.elements(calls)):
                if call.startswith(b"{"):
                    self._add_call(jsontext.members(call), position)

    def _add_call(self, part: Members, position: int) -> None:
        index = jsontext.value(part.pop("index", _NULL))
        name = part.get("id", _NULL)
        if not isinstance(index, int):  # told apart by their ids, where the server sends no index
            index = position if not self._calls or position in self._calls else max(self._calls)
            known = self._calls[index].get("id") if index in self._calls else None
            if known is not None and name not in (_NULL, b'""', known):
                index = max(self._calls) + 1
        call = self._calls.setdefault(index, Sum())
        held = call.get("id")
        if held not in (None, b'""'):  # a name appears once, as it came
            part = {key: raw for key, raw in part.items() if key != "id"}
        function = part.get("function", b"")
        if function.startswith(b"{"):
            inner = jsontext.members(function)
            arguments = inner.get("arguments", b'""')
            if arguments[:1] in b"{[":  # an object where its text belongs
                inner["arguments"] = jsontext.quote(arguments.decode("utf-8", "replace"))
                part = {**part, "function": jsontext.join(inner)}
        call.add(part)

    def render(self) -> bytes:
        out: Members = {"index": b"%d" % self._index, "finish_reason": _NULL}
        if self._text is not None:
            out["text"] = jsontext.quote("".join(self._text))
        if self._message is not None:
            message: Members = {"role": b'"assistant"', "content": _NULL, **self._message.members()}
            if self._calls:
                message["tool_calls"] = jsontext.array([_call(self._calls[index]) for index in sorted(self._calls)])
            out["message"] = jsontext.join(message)
        return jsontext.join({**out, **self._own.members()})


def _call(call: Sum) -> bytes:
    made: Members = {"id": _NULL, "type": b'"function"', **call.members()}
    if made["type"] == b'"function"' or "function" in made:
        function = jsontext.members(made["function"]) if "function" in made else {}
        made["function"] = jsontext.join({"name": b'""', "arguments": b'""', **function})
    return jsontext.join(made)


def _part(texts: list[str]) -> bytes:
    return b'{"type":"text","text":' + jsontext.quote("".join(texts)) + b"}"
