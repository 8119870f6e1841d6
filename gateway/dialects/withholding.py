"""Reasoning that is kept back in the protocols of typed events, so that what is left is still a stream of its protocol.

Owns which events and members hold reasoning text there. Invariants: signatures and encrypted reasoning pass with their bytes (the next turn
needs them); what repeats text (`*.done`, the finished item, the finished response) repeats what was delivered; Responses are numbered
without gaps; what Messages keeps of a block is what its own `display: omitted` sends.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final

from gateway.dialects.quota import Quota
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event, render

_DELTAS: Final = {"response.reasoning_summary_text.delta": "summary", "response.reasoning_text.delta": "content"}
_TEXTS_DONE: Final = {"response.reasoning_summary_text.done": "summary", "response.reasoning_text.done": "content"}
_PARTS: Final = {
    "response.reasoning_summary_part.added": "summary",
    "response.reasoning_summary_part.done": "summary",
    "response.content_part.added": "content",
    "response.content_part.done": "content",
}
_ITEMS: Final = frozenset({"response.output_item.added", "response.output_item.done"})
_WHOLE: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_INDEXES: Final = {"summary": "summary_index", "content": "content_index"}

Place = tuple[Any, str, Any]  # output index, which list of the item, index in it


class Withholding:
    """One stream's. `quota`: what may be delivered."""

    def __init__(self, most_tokens: float) -> None:
        self.quota = Quota(most_tokens)

    @abstractmethod
    def take(self, kind: str, event: Event) -> Event | None:
        """The event as it leaves; None where it does not."""


class OfMessages(Withholding):
    def take(self, kind: str, event: Event) -> Event | None:
        if kind == "content_block_delta" and b"thinking_delta" in event.data:
            return self._within(event, "delta")
        if kind == "content_block_start" and b'"thinking"' in event.data:
            return self._within(event, "content_block") or event
        return event

    def _within(self, event: Event, name: str) -> Event | None:
        top = jsontext.members(event.data)
        inner = jsontext.members(top.get(name, b"{}"))
        text = jsontext.value(inner.get("thinking", b"null"))
        if inner.get("type") not in (b'"thinking_delta"', b'"thinking"') or not isinstance(text, str) or not text:
            return event
        kept = self.quota.allow(text)
        if kept == text:
            return event
        if not kept and name == "delta":
            return None
        return _changed(event, {**top, name: jsontext.join({**inner, "thinking": jsontext.quote(kept)})})


class OfResponses(Withholding):
    def __init__(self, most_tokens: float) -> None:
        super().__init__(most_tokens)
        self._dropped = 0
        self._delivered: dict[Place, int] = {}  # characters; bounded by the parts of the answer
        self._unopened: set[Place] = set()  # parts that were not announced, so they do not end either

    def take(self, kind: str, event: Event) -> Event | None:
        if kind in _DELTAS or kind in _TEXTS_DONE or kind in _PARTS or kind in _ITEMS or kind in _WHOLE:
            changed = self._changed(kind, event)
            if changed is None:
                self._dropped += 1
                return None
            event = changed
        if self._dropped and b'"sequence_number"' in event.data:
            top = jsontext.members(event.data)
            number = jsontext.value(top.get("sequence_number", b"null"))
            if isinstance(number, int):
                return _changed(event, {**top, "sequence_number": b"%d" % (number - self._dropped)})
        return event

    def _changed(self, kind: str, event: Event) -> Event | None:
        top = jsontext.members(event.data)
        if kind in _ITEMS:
            return self._with(event, top, "item", lambda raw: self._item(raw, top.get("output_index")))
        if kind in _WHOLE:
            return self._with(event, top, "response", self._response)
        if kind in _PARTS:
            return self._part(kind, event, top)
        which = _DELTAS.get(kind) or _TEXTS_DONE[kind]
        place = (top.get("output_index"), which, top.get(_INDEXES[which]))
        member = "delta" if kind in _DELTAS else "text"
        text = jsontext.value(top.get(member, b"null"))
        if not isinstance(text, str):
            return event
        if kind in _DELTAS:
            kept = self.quota.allow(text)
            self._delivered[place] = self._delivered.get(place, 0) + len(kept)
        else:
            kept = text[: self._delivered.get(place, 0)]
        if kept == text:
            return event
        return _changed(event, {**top, member: jsontext.quote(kept)}) if kept else None

    def _part(self, kind: str, event: Event, top: Members) -> Event | None:
        part = top.get("part", b"{}")
        which = _PARTS[kind]
        if which == "content" and b"reasoning_text" not in part:
            return event
        place = (top.get("output_index"), which, top.get(_INDEXES[which]))
        if kind.endswith(".added") and self.quota.exhausted:
            self._unopened.add(place)
        if place in self._unopened:
            return None
        return self._with(event, top, "part", lambda raw: self._cut(raw, place))

    def _response(self, raw: bytes) -> bytes:
        response = jsontext.members(raw)
        output = response.get("output", b"")
        if not output.startswith(b"[") or b'"reasoning"' not in output:
            return raw
        items = jsontext.elements(output)
        cut = [self._item(item, b"%d" % at) for at, item in enumerate(items)]
        return raw if cut == items else jsontext.join({**response, "output": jsontext.array(cut)})

    def _item(self, raw: bytes, output_index: bytes | None) -> bytes:
        item = jsontext.members(raw)
        if item.get("type") != b'"reasoning"':
            return raw
        for which in _INDEXES:
            if item.get(which, b"").startswith(b"["):
                parts = jsontext.elements(item[which])
                places = [((output_index, which, b"%d" % at), part) for at, part in enumerate(parts)]
                cut = [self._cut(part, place) for place, part in places if place not in self._unopened]
                if cut != parts:
                    item[which] = jsontext.array(cut)
                    raw = b""
        return raw or jsontext.join(item)

    def _cut(self, raw: bytes, place: Place) -> bytes:
        part = jsontext.members(raw)
        text = jsontext.value(part.get("text", b"null"))
        if not isinstance(text, str):
            return raw
        if self.quota.most and not self.quota.exceeded:
            return raw  # an upstream may give the finished item alone, without deltas
        kept = text[: self._delivered.get(place, 0)]
        return raw if kept == text else jsontext.join({**part, "text": jsontext.quote(kept)})

    def _with(self, event: Event, top: Members, name: str, change: Callable[[bytes], bytes]) -> Event:
        raw = top.get(name, b"")
        changed = change(raw) if raw.startswith(b"{") else raw
        return event if changed == raw else _changed(event, {**top, name: changed})


def _changed(event: Event, top: Members) -> Event:
    data = jsontext.join(top)
    return Event(event.name, data, render(data, event.name))
