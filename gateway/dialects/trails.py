"""What a stream has said so far, as far as it takes to go on with it after its upstream died: the text, and where in the answer it stands.

Kept only for streams that may be continued. Bounded: an answer that grows past TEXT_CHARS is not gone on with.
"""

from __future__ import annotations

import re
from typing import Any, Final

from gateway.dialects.base import FAULTS
from gateway.wire import jsontext
from gateway.wire.sse import Event

TEXT_CHARS: Final = 1_000_000  # four times what the longest answers have
_REASONING: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
# Members of a delta that are neither text nor reasoning and mean nothing to an answer that goes on.
_PLAIN: Final = frozenset({"role", "content", "obfuscation", *_REASONING})
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {}, False)


class Trail:
    """text: all of the answer's. inside: it stands in plain text, where it may be gone on with; never in reasoning, in a call, or after
    its end. odd: it holds what cannot be given back as the beginning of an answer. first: members of the first chunk, as they came.
    block: the number of the content block that is open (Messages)."""

    def __init__(self, tags: tuple[str, ...] = ()) -> None:
        """`tags`: around reasoning that stands in the text."""
        self._parts: list[str] = []
        self._chars = 0
        self._tags = re.compile(rf"<(/?)(?:{'|'.join(map(re.escape, tags))})>") if tags else None
        self.inside = False
        self.odd = False
        self.first: dict[str, bytes] = {}
        self.block = 0
        self._blocks = 0

    @property
    def text(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    @property
    def may_continue(self) -> bool:
        return self.inside and not self.odd and bool(self.text) and not self._in_tag()

    def note(self, event: Event) -> None:
        """An event as the client gets it, at the latest when its text has been decided on."""
        try:
            top = jsontext.value(event.data)
        except ValueError:
            return
        if not isinstance(top, dict):
            return
        try:
            if "choices" in top:
                self._chunk(top, event.data)
            elif isinstance(top.get("type"), str):
                self._typed(top["type"], top)
        except FAULTS:  # a member of a type that nobody sends
            self.odd = True

    def _say(self, text: str) -> None:
        self._parts.append(text)
        self._chars += len(text)
        self.inside = True
        self.odd |= self._chars > TEXT_CHARS

    def _in_tag(self) -> bool:
        found = list(self._tags.finditer(self.text)) if self._tags is not None else []
        return bool(found) and not found[-1][1]

    def _chunk(self, top: dict[str, Any], data: bytes) -> None:
        if not self.first:
            members = jsontext.members(data)
            self.first = {name: members[name] for name in ("id", "created") if name in members}
        choices = top["choices"]
        if not isinstance(choices, list):
            self.odd |= choices is not None
            return
        for choice in choices:
            if not isinstance(choice, dict) or choice.get("index", 0) != 0:
                self.odd = True
                continue
            delta = choice.get("delta", choice) or {}
            text = delta.get("content") if "delta" in choice else choice.get("text")
            if "delta" in choice and any(name not in _PLAIN and value not in _EMPTY for name, value in delta.items()):
                self.odd = True
            if any(delta.get(name) not in _EMPTY for name in _REASONING):
                self.inside = False
            if isinstance(text, str) and text:
                self._say(text)
            elif text not in _EMPTY:
                self.odd = True
            if choice.get("finish_reason"):
                self.inside = False

    def _typed(self, kind: str, top: dict[str, Any]) -> None:
        if kind == "content_block_start":
            block = top.get("content_block") or {}
            self._blocks += block.get("type") == "text"
            self.odd |= block.get("type") not in ("text", "thinking", "redacted_thinking") or self._blocks > 1
            self.inside = block.get("type") == "text"
            index, text = top.get("index", 0), block.get("text") or ""
            if not isinstance(index, int) or not isinstance(text, str):
                self.odd = True
                return
            self.block = index
            if self.inside and text:
                self._say(text)
        elif kind == "content_block_delta":
            delta = top.get("delta") or {}
            if delta.get("type") == "text_delta":
                self._say(str(delta.get("text", "")))
            elif delta.get("type") not in ("thinking_delta", "signature_delta"):
                self.odd = True  # citations, calls
        elif kind in ("content_block_stop", "message_delta", "message_stop"):
            self.inside = False
