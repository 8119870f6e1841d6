"""Where servers put reasoning in a chunk, and how it is read out of there.

Owns the list of places: fields (`reasoning_content`, `reasoning`, `thinking`), details beside them, parts of a content that is a list,
and tags in the content's text. It must not know what is made of it. A new place is added here, and in `chunks.py` if it is to be paced.
Invariant: what is not taken as text stays in `rest`, in its own bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.dialects.chunks import Chunk, text_of
from gateway.dialects.thinking import Segment, Thinking
from gateway.piece import Kind
from gateway.wire import jsontext
from gateway.wire.jsontext import Members

FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
DETAILS: Final = ("reasoning_details", "thinking_blocks")  # OpenRouter's and litellm's: they say again what a field says, and sign it
_IN_DETAILS: Final = ("text", "summary", "thinking")
_THINKING_PARTS: Final = ("thinking", "reasoning")
_UNSIGNED: Final = frozenset({"type", "thinking", "reasoning", "text", "index", "closed"})  # members that are not missed
_IN_PARTS: Final = ("thinking", "reasoning", "text")


@dataclass(frozen=True, slots=True)
class Text:
    """A stretch of text. field: the member that it came from or goes to. mark: it is a tag in the source.

    content_field: the member that the answer's own text has here. tag: the `reasoning_tag` that it leaves with.
    """

    kind: Kind
    field: str
    text: str
    content_field: str = "content"
    mark: bool = False
    tag: str = ""

    def with_text(self, text: str) -> Text:
        return replace(self, text=text)


@dataclass(slots=True)
class Found:
    """texts: in order. rest: the other members. before: the texts as they stood. parts: the content was a list that was taken apart."""

    texts: list[Text]
    rest: Members
    before: list[tuple[str, str]]
    parts: bool = False


class Sources:
    """`split`: texts are taken out of lists too; else those stay whole."""

    def __init__(self, thinking: Thinking, split: bool) -> None:
        self._thinking = thinking
        self._split = split

    def take(self, chunk: Chunk, ends: bool) -> Found:
        """`ends`: no more text belongs to what the chunk's text began, so nothing may be held."""
        if not chunk.has_delta:
            text = text_of(chunk.delta.get("text"))
            rest = {key: raw for key, raw in chunk.delta.items() if key not in ("text", "index", "finish_reason", "logprobs")}
            return Found(self._scanned(chunk.index, text, "text", ends), rest, [("text", text)] if text else [])
        rest = dict(chunk.delta)
        found = Found([], rest, [])
        for field in FIELDS:
            text = text_of(rest.get(field))
            if not text:
                continue
            if found.texts and text == found.texts[0].text:  # the same under two names
                if self._split:
                    del rest[field]
                    found.parts = True
                continue
            del rest[field]
            found.before.append((field, text))
            found.texts.append(Text(Kind.REASONING, field, text))
        if not found.texts and self._split:
            text = "".join(map(self.detailed, (rest[name] for name in DETAILS if name in rest)))
            if text:
                found.texts.append(Text(Kind.REASONING, "reasoning_content", text))
        if found.texts:
            self._thinking.elsewhere(chunk.index)
            found.texts[:0] = self.flush(chunk.index, "content")  # what was held came before this
        self._content(chunk.index, found, ends)
        refusal = text_of(rest.get("refusal"))
        if refusal:
            del rest["refusal"]
            found.before.append(("refusal", refusal))
            found.texts.append(Text(Kind.CONTENT, "refusal", refusal))
        return found

    def flush(self, index: int, field: str) -> list[Text]:
        return [_text(segment, field) for segment in self._thinking.scanner(index).flush()]

    def listed(self, chunk: Chunk) -> tuple[Kind, str] | None:
        """Where a chunk's text stands in lists that stay whole: its kind, and the reasoning in it."""
        parts = chunk.delta.get("content", b"")
        if self._split or not (parts.startswith(b"[") or any(name in chunk.delta for name in DETAILS)):
            return None
        kind, weight = chunk.weight()
        if not weight or kind not in (Kind.CONTENT, Kind.REASONING):
            return None
        if not parts.startswith(b"["):
            return kind, "".join(self.detailed(chunk.delta.get(name, b"")) for name in DETAILS)
        listed = [part for part in jsontext.value(parts) if isinstance(part, dict) and part.get("type") in _THINKING_PARTS]
        return kind, "".join(_inner(part.get(name)) for part in listed for name in _IN_PARTS)

    @staticmethod
    def detailed(raw: bytes) -> str:
        """The text in a list of details."""
        if not raw.startswith(b"["):
            return ""
        listed: Any = jsontext.value(raw)
        texts = [detail.get(name) for detail in listed if isinstance(detail, dict) for name in _IN_DETAILS]
        return "".join(text for text in texts if isinstance(text, str))

    def _content(self, index: int, found: Found, ends: bool) -> None:
        raw = found.rest.get("content", b"null")
        if raw.startswith(b"[") and self._split:
            del found.rest["content"]
            found.parts = True
            signed: list[bytes] = []
            kept = [part for part in jsontext.elements(raw) if not self._part(index, part, found, ends, signed)]
            if kept:
                found.rest["content"] = jsontext.array(kept)
            if signed:  # beside the text, where a content that is text has no place for them
                found.rest["thinking_blocks"] = jsontext.array(signed)
            return
        text = text_of(raw)
        if text:
            del found.rest["content"]
            found.before.append(("content", text))
        found.texts += self._scanned(index, text, "content", ends)

    def _part(self, index: int, raw: bytes, found: Found, ends: bool, signed: list[bytes]) -> bool:
        """Take one part of a content that is a list; False where it must stay one, as an image. `signed`: gets those with a signature."""
        if not raw.startswith(b"{"):
            return False
        part = jsontext.members(raw)
        kind = jsontext.value(part.get("type", b"null"))
        names = _IN_PARTS if kind in _THINKING_PARTS else ("text",) if kind == "text" else ()
        name = next((name for name in names if name in part), None)
        if name is None:
            return False
        text = _inner(jsontext.value(part[name]))
        if kind == "text":
            found.texts += self._scanned(index, text, "content", ends)
            return True
        if text:
            found.texts.append(Text(Kind.REASONING, "reasoning_content", text))
        if not set(part) <= _UNSIGNED:
            signed.append(raw)
        return True

    def _scanned(self, index: int, text: str, field: str, ends: bool) -> list[Text]:
        if not text and not ends:
            return []
        scanner = self._thinking.scanner(index)
        segments = scanner.feed(text) if text else []
        if ends:
            segments += scanner.flush()
        return [_text(segment, field) for segment in segments]


def _text(segment: Segment, field: str) -> Text:
    return Text(segment.kind, field, segment.text, field, segment.tag)


def _inner(value: Any) -> str:
    """Text that is a string or a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    return ""
