"""Chunks with choices, as chat completions and legacy completions send them: their reading, mending and splitting.

Owns one chunk with one choice, taken apart into its members' own bytes. The protocol's state over chunks is `choices.py`'s.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.text import borders_of, weigh
from gateway.dialects.weights import details_weight, parts_weight
from gateway.piece import Kind
from gateway.wire import jsontext
from gateway.wire.jsontext import Members

# Where generated text stands, in the order in which it leaves when one delta holds several.
CHAT_TEXTS: Final = (
    ("reasoning_content", Kind.REASONING),
    ("reasoning", Kind.REASONING),
    ("thinking", Kind.REASONING),
    ("content", Kind.CONTENT),
    ("refusal", Kind.CONTENT),
)
COMPLETION_TEXTS: Final = (("text", Kind.CONTENT),)
_NULL: Final = b"null"
_NO_FINISH: Final = frozenset({b'""', b'"null"', b'"None"', b"false", b"0"})  # what servers write for a finish reason that is none
# What every chunk of one answer repeats. Of other members nobody knows whether a client adds them up, so they are said once.
_ENVELOPE: Final = frozenset({"id", "object", "created", "model", "system_fingerprint", "service_tier", "provider"})


def belongs_to_each(key: str, raw: bytes) -> bool:
    """Whether a member at the top of a chunk is part of its envelope, which each part of it carries."""
    return key in _ENVELOPE and raw[:1] not in b"{["


def text_of(raw: bytes | None) -> str:
    """The string that a member holds; empty for null and for what is no string."""
    if raw is None or not raw.startswith(b'"') or raw == b'""':
        return ""
    return str(jsontext.value(raw))


def function_of(call: Members) -> Members:
    """A call's function; empty where it has none (calls of custom tools)."""
    raw = call.get("function", b"")
    return jsontext.members(raw) if raw.startswith(b"{") else {}


class Chunk:
    """One chunk with exactly one choice. `delta` is the choice itself where the dialect has no delta (legacy completions).

    raw: the event as it came, which it renders to unless it was changed. changed: it was mended, or shared its event with others.
    kind: of its text, where that is not what the text's name says.
    """

    __slots__ = ("changed", "choice", "delta", "has_delta", "index", "kind", "raw", "texts", "top")

    def __init__(self, top: Members, choice: Members, has_delta: bool, position: int, raw: bytes = b"", whole: bool = False) -> None:
        """`whole`: its message, if it has one in place of a delta, is the answer. (Else it may repeat what the deltas said.)"""
        self.raw = raw
        self.top = top
        self.choice = choice
        self.has_delta = has_delta
        self.texts = CHAT_TEXTS if has_delta else COMPLETION_TEXTS
        self.changed = not raw
        self.kind: Kind | None = None
        self.index = self._index(position)
        self.delta = choice
        if has_delta:
            delta = choice.get("delta", b"null")
            if whole and delta in (_NULL, b"{}") and choice.get("message", b"").startswith(b"{"):
                delta = choice["delta"] = choice.pop("message")
                self.changed = True
            if delta.startswith(b"{"):
                self.delta = jsontext.members(delta)
            else:  # strict clients want an object; a bare string can only be the text
                self.changed = True
                self.delta = {"content": delta} if text_of(delta) else {}
                choice["delta"] = jsontext.join(self.delta)
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
        if self.has_delta and self.delta.get("tool_calls", b"").startswith(b"{"):
            self.delta["tool_calls"] = jsontext.array([self.delta["tool_calls"]])
            self.changed = True
        if self.delta.get("role") in (_NULL, b'""'):
            del self.delta["role"]
            self.changed = True
        if self.choice.get("finish_reason") in _NO_FINISH:
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
                text_kind, amount = parts_weight(jsontext.value(raw), text_kind)
            else:
                amount = weigh(text_of(raw))
            if amount:
                kind, weight = text_kind, weight + amount
        if not weight and "reasoning_details" in self.delta:
            kind, weight = details_weight(jsontext.value(self.delta["reasoning_details"]))
        kind = self.kind if self.kind is not None and weight else kind
        if self.has_delta:
            for call in self.calls():
                kind = Kind.TOOL
                weight += weigh(text_of(function_of(call).get("arguments")))
            legacy = self.delta.get("function_call")
            if legacy is not None and legacy.startswith(b"{"):
                kind, weight = Kind.TOOL, weight + weigh(text_of(jsontext.members(legacy).get("arguments")))
        if not weight:
            return kind, 0.0
        return kind, float(sum(len(self._entries(key)) for key in self._scored)) or weight

    @property
    def _scored(self) -> tuple[str, ...]:
        """The lists in `logprobs` with an entry for each token."""
        return ("content", "refusal") if self.has_delta else ("tokens",)

    def logprobs(self) -> Members:
        raw = self.choice.get("logprobs", _NULL)
        return jsontext.members(raw) if raw.startswith(b"{") else {}

    def _entries(self, key: str) -> list[bytes]:
        raw = self.logprobs().get(key, _NULL)
        return jsontext.elements(raw) if raw.startswith(b"[") else []

    def borders(self) -> dict[str, list[int]] | None:
        """The ends of the tokens of each text that has log-probabilities; None where they cannot be told apart by the text, since each
        is to arrive once, with its token."""
        if self.choice.get("logprobs", _NULL)[:1] not in b"{n":
            return None
        found: dict[str, list[int]] = {}
        lists = {key: raw for key, raw in self.logprobs().items() if raw not in (_NULL, b"[]", b"{}")}
        for key, raw in lists.items():
            if not raw.startswith(b"["):
                return None
            if not self.has_delta and key != "tokens":
                if len(jsontext.elements(raw)) != len(self._entries("tokens")):
                    return None
                continue
            if key not in self._scored:
                return None
            entries = jsontext.value(raw)
            tokens = [entry.get("token") if isinstance(entry, dict) else entry for entry in entries]
            name = key if self.has_delta else "text"
            text = text_of(self.delta.get(name))
            ends = borders_of(text, tokens)
            if not text or ends is None:
                return None
            found[name] = ends
        return found

    def without_finish(self) -> None:
        self.choice["finish_reason"] = _NULL
        self.changed = True

    def finish_alone(self) -> Chunk:
        """Another chunk with the finish reason and nothing else; what stays here goes on without it."""
        top = {key: raw for key, raw in self.top.items() if belongs_to_each(key, raw)}
        own = {"delta": b"{}"} if self.has_delta else {name: b'""' for name, _ in self.texts}
        alone = Chunk(top, {"index": b"%d" % self.index, **own, "finish_reason": self.choice["finish_reason"]}, self.has_delta, self.index)
        self.without_finish()
        return alone

    def take_finish(self, bare: bool) -> Chunk:
        """Another chunk with the finish reason and what belongs to the end, and no text; what stays here goes on without them."""
        closing = Chunk(dict(self.top), dict(self.choice), self.has_delta, self.index)
        if closing.has_delta:
            closing.delta = {}
        else:
            closing.delta.update({name: b'""' for name, _ in closing.texts if name in closing.delta})
        self.without_finish()
        texts = {name for name, _ in self.texts}
        stays = {"index", "delta", "finish_reason"} | (set() if bare else {"logprobs"}) | (set() if self.has_delta else texts)
        for key in [key for key in self.choice if key not in stays]:
            del self.choice[key]
        if not bare:
            closing.choice.pop("logprobs", None)
        self.top = {key: raw for key, raw in self.top.items() if key == "choices" or belongs_to_each(key, raw)}
        return closing

    def render(self) -> bytes:
        if not self.changed:
            return self.raw
        if self.has_delta:
            self.choice["delta"] = jsontext.join(self.delta)
        return b"data: " + jsontext.join({**self.top, "choices": b"[" + jsontext.join(self.choice) + b"]"}) + b"\n\n"
