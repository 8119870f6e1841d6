"""Chunks with choices, as chat completions and legacy completions send them: their reading, mending and splitting.

Owns one chunk with one choice, taken apart into its members' own bytes. The protocol's state over chunks is `choices.py`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from gateway.dialects.cutting import Part
from gateway.dialects.text import weigh
from gateway.piece import Kind
from gateway.wire import jsontext
from gateway.wire.jsontext import Members

# Where generated text stands, in the order in which it leaves when one delta holds several.
CHAT_TEXTS: Final = (
    ("reasoning_content", Kind.REASONING),
    ("reasoning", Kind.REASONING),
    ("content", Kind.CONTENT),
    ("refusal", Kind.CONTENT),
)
COMPLETION_TEXTS: Final = (("text", Kind.CONTENT),)
_NULL: Final = b"null"


def text_of(raw: bytes | None) -> str:
    """The string that a member holds; empty for null and for what is no string."""
    if raw is None or not raw.startswith(b'"') or raw == b'""':
        return ""
    return str(jsontext.value(raw))


class Chunk:
    """One chunk with exactly one choice. `delta` is the choice itself where the dialect has no delta (legacy completions).

    raw: the event as it came, which it renders to unless it was changed. changed: it was mended, or shared its event with others.
    """

    __slots__ = ("changed", "choice", "delta", "has_delta", "index", "raw", "texts", "top")

    def __init__(self, top: Members, choice: Members, has_delta: bool, position: int, raw: bytes = b"") -> None:
        self.raw = raw
        self.top = top
        self.choice = choice
        self.has_delta = has_delta
        self.texts = CHAT_TEXTS if has_delta else COMPLETION_TEXTS
        self.changed = not raw
        self.index = self._index(position)
        self.delta = choice
        if has_delta:
            delta = choice.get("delta", b"null")
            if delta.startswith(b"{"):
                self.delta = jsontext.members(delta)
            else:  # null or missing: strict clients want an object
                self.changed = True
                choice["delta"] = b"{}"
                self.delta = {}
        self._mend()

    def _index(self, position: int) -> int:
        raw = self.choice.get("index")
        if raw is not None and raw.strip(b'"').isdigit():
            if raw.isdigit():
                return int(raw)
            position = int(raw.strip(b'"'))
        self.changed = True
        self.choice["index"] = b"%d" % position
        return position

    def _mend(self) -> None:
        """Values that are legal nowhere and break clients: an empty role or finish reason, arguments that are not text."""
        if self.delta.get("role") in (_NULL, b'""'):
            del self.delta["role"]
            self.changed = True
        if self.choice.get("finish_reason") == b'""':
            self.choice["finish_reason"] = _NULL
            self.changed = True

    @property
    def finish(self) -> bool:
        return self.choice.get("finish_reason", _NULL) != _NULL

    def calls(self) -> list[Members]:
        """Its tool calls; empty where there are none or where they are not what they should be."""
        raw = self.delta.get("tool_calls") if self.has_delta else None
        if raw is None or not raw.startswith(b"["):
            return []
        try:
            return [jsontext.members(call) for call in jsontext.elements(raw)]
        except ValueError:
            return []

    def set_calls(self, calls: list[Members]) -> None:
        self.delta["tool_calls"] = jsontext.array([jsontext.join(call) for call in calls])
        self.changed = True

    def bare(self) -> bool:
        """Whether there is nothing in it but a role and empty texts: no real content."""
        known = {name for name, _ in self.texts}
        for key, raw in self.delta.items():
            if key in known:
                if text_of(raw) or raw[:1] in b"[{":
                    return False
            elif self.has_delta and key not in ("role", "obfuscation") and raw not in (_NULL, b"[]", b"{}", b'""', b"false"):
                return False
        return True

    def weight(self) -> tuple[Kind, float]:
        """Its kind, that of the last text in it, and its tokens."""
        kind, weight = Kind.STRUCTURE, 0.0
        for name, text_kind in self.texts:
            raw = self.delta.get(name)
            if raw is not None and raw.startswith(b"["):  # content parts
                text_kind, amount = _parts_weight(jsontext.value(raw), text_kind)
            else:
                amount = weigh(text_of(raw))
            if amount:
                kind, weight = text_kind, weight + amount
        if self.has_delta:
            for call in self.calls():
                kind = Kind.TOOL
                weight += weigh(text_of(jsontext.members(call.get("function") or b"{}").get("arguments")))
            legacy = self.delta.get("function_call")
            if legacy is not None and legacy.startswith(b"{"):
                kind, weight = Kind.TOOL, weight + weigh(text_of(jsontext.members(legacy).get("arguments")))
        tokens = self.logprob_tokens()
        return (kind, float(len(tokens))) if tokens and weight else (kind, weight)

    def logprob_tokens(self) -> list[str]:
        """The tokens that have log-probabilities here."""
        raw = self.choice.get("logprobs")
        if raw is None or not raw.startswith(b"{"):
            return []
        found = jsontext.value(raw)
        if self.has_delta:
            return [str(entry.get("token")) for entry in found.get("content") or () if isinstance(entry, dict)]
        return [str(token) for token in found.get("tokens") or ()]

    def without_finish(self) -> None:
        self.choice["finish_reason"] = _NULL
        self.changed = True

    def take_finish(self) -> Chunk:
        """Another chunk with the finish reason and what belongs to the end, and no text; what stays here goes on without them."""
        closing = Chunk(dict(self.top), dict(self.choice), self.has_delta, self.index)
        if closing.has_delta:
            closing.delta = {}
        else:
            closing.delta.update({name: b'""' for name, _ in closing.texts if name in closing.delta})
        self.without_finish()
        self.top = {key: value for key, value in self.top.items() if key != "usage"}
        return closing

    def render(self) -> bytes:
        if not self.changed:
            return self.raw
        if self.has_delta:
            self.choice["delta"] = jsontext.join(self.delta)
        return b"data: " + jsontext.join({**self.top, "choices": b"[" + jsontext.join(self.choice) + b"]"}) + b"\n\n"

    # Splitting

    def parts(self) -> Sequence[Part]:
        """Its texts, each with a way to render any stretch of it; empty where it must stay whole."""
        tokens = self.logprob_tokens()
        parts: list[Part] = []
        for name, kind in self.texts:
            raw = self.delta.get(name)
            if raw is not None and raw[:1] in b"[{":
                return []
            text = text_of(raw)
            if text:
                borders = None
                if tokens and kind is Kind.CONTENT:
                    if "".join(tokens) != text:
                        return []
                    borders = list(accumulate(len(token) for token in tokens))
                parts.append(Part(kind, text, self._text_render(name, text, borders), borders=borders))
        if tokens and not any(part.borders for part in parts):
            return []
        for call in self.calls():
            function = jsontext.members(call.get("function") or b"{}")
            text = text_of(function.get("arguments"))
            parts.append(Part(Kind.TOOL, text, self._call_render(call, function, text)))
        return parts

    def _text_render(self, name: str, text: str, borders: list[int] | None) -> Any:
        def render(start: int, end: int, first: bool, last: bool) -> bytes:
            return self._stretch(name, jsontext.quote(text[start:end]), first, last, self._logprobs(borders, start, end))

        return render

    def _call_render(self, call: Members, function: Members, text: str) -> Any:
        def render(start: int, end: int, first: bool, last: bool) -> bytes:
            arguments = jsontext.quote(text[start:end])
            if start == 0:
                piece = {**call, "function": jsontext.join({**function, "arguments": arguments})}
            else:
                piece = {"index": call.get("index", b"0"), "function": jsontext.join({"arguments": arguments})}
            return self._stretch("tool_calls", jsontext.array([jsontext.join(piece)]), first, last, _NULL)

        return render

    def _stretch(self, name: str, raw: bytes, first: bool, last: bool, logprobs: bytes | None) -> bytes:
        """This chunk with one stretch of one text. What is said once goes with the first (role) or the last stretch (the rest)."""
        texts = {text for text, _ in self.texts} | ({"tool_calls"} if self.has_delta else set())
        plain = ("index", "delta", "finish_reason", "logprobs")
        delta: Members = {}
        for key, value in self.delta.items():
            if key == name:
                delta[key] = raw
            elif key in texts or (not self.has_delta and key in plain):
                continue
            elif first if key == "role" else last:
                delta[key] = value
        choice: Members = {}
        for key, value in self.choice.items():
            if key == "delta":
                choice[key] = jsontext.join(delta)
            elif key == "index":
                choice[key] = value
            elif key == "finish_reason":
                choice[key] = value if last else _NULL
            elif key == "logprobs":
                choice[key] = value if logprobs is None else logprobs
            elif not self.has_delta:
                if key in delta:
                    choice[key] = delta[key]
            elif last:
                choice[key] = value
        top: Members = {}
        for key, value in self.top.items():
            if key == "choices":
                top[key] = b"[" + jsontext.join(choice) + b"]"
            elif last or (value[:1] not in b"{[" and key not in ("usage", "obfuscation")):
                top[key] = value
            elif key == "usage":
                top[key] = _NULL
        return b"data: " + jsontext.join(top) + b"\n\n"

    def _logprobs(self, borders: list[int] | None, start: int, end: int) -> bytes | None:
        """The log-probabilities of the tokens in text[start:end]."""
        raw = self.choice.get("logprobs")
        if raw is None or not raw.startswith(b"{"):
            return None
        if borders is None:
            return _NULL
        low = 0 if start == 0 else borders.index(start) + 1
        high = borders.index(end) + 1 if end != borders[-1] else len(borders)
        lists = jsontext.members(raw)
        for key, value in lists.items():
            if value.startswith(b"[") and (key == "content" or not self.has_delta):
                lists[key] = jsontext.array(jsontext.elements(value)[low:high])
        return jsontext.join(lists)


def _parts_weight(parts: Any, kind: Kind) -> tuple[Kind, float]:
    """Content as a list of parts: its kind (that of the last part) and weight."""
    weight = 0.0
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        thinking = part.get("type") in ("thinking", "reasoning")
        kind = Kind.REASONING if thinking else Kind.CONTENT
        inner = part.get("thinking") or part.get("text") or part.get("reasoning")
        if isinstance(inner, list):
            weight += _parts_weight(inner, kind)[1]
        elif isinstance(inner, str):
            weight += weigh(inner)
    return kind, weight
