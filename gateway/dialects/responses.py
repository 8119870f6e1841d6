"""Responses: `POST /v1/responses`, `GET /v1/responses/{id}?stream=true`. Typed events with rising sequence numbers.

Splitting a delta makes more events than the upstream sent, so numbers are given when an event leaves: the upstream's own plus what was
added before it. As long as nothing was added an event keeps its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import UNSET

from gateway.dialects.base import Style, Usage
from gateway.dialects.cutting import Part
from gateway.dialects.reported import failure_of, status_of
from gateway.dialects.typed import Head, TypedDialect, borders_of
from gateway.dialects.withholding import OfResponses
from gateway.errors import Failure
from gateway.piece import Kind, Piece
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event, render

# Delta kinds whose `delta` is text that may be split.
TEXTS: Final = {
    "response.output_text.delta": Kind.CONTENT,
    "response.refusal.delta": Kind.CONTENT,
    "response.audio.transcript.delta": Kind.CONTENT,
    "response.output_audio_transcript.delta": Kind.CONTENT,
    "response.reasoning_summary_text.delta": Kind.REASONING,
    "response.reasoning_text.delta": Kind.REASONING,
    "response.function_call_arguments.delta": Kind.TOOL,
    "response.custom_tool_call_input.delta": Kind.TOOL,
    "response.code_interpreter_call_code.delta": Kind.TOOL,
    "response.mcp_call_arguments.delta": Kind.TOOL,
    "response.mcp_call.arguments.delta": Kind.TOOL,
}
# A delta kind that is not known yet is paced by what its name says, and never split.
_BY_WORD: Final = (
    ("reasoning", Kind.REASONING),
    ("arguments", Kind.TOOL),
    ("input", Kind.TOOL),
    ("code", Kind.TOOL),
    ("text", Kind.CONTENT),
)
_TERMINAL: Final = frozenset({"response.completed", "response.incomplete"})
_REFUSED: Final = frozenset({"response.failed", "error"})
# What opens a stream or announces what is still empty: no content yet.
_PREAMBLE: Final = frozenset(
    {
        "response.created", "response.in_progress", "response.queued", "response.output_item.added", "response.content_part.added",
        "response.reasoning_summary_part.added", "keepalive",
    }
)  # fmt: skip
_NUMBER: Final = re.compile(rb'"sequence_number"\s*:\s*(\d+)')
_ONCE: Final = frozenset({"obfuscation"})


class Numbers:
    """How many events were added so far, and the last number that left."""

    __slots__ = ("added", "last")

    def __init__(self) -> None:
        self.added = 0
        self.last: int | None = None

    def take(self, number: int) -> int:
        self.last = number + self.added
        return self.last

    def another(self) -> int:
        """The number of an event of our own."""
        self.added += 1  # before the first event too: the upstream counts from 0, and so do we
        self.last = 0 if self.last is None else self.last + 1
        return self.last


class Numbered(Piece):
    """An event as it came, numbered when it leaves."""

    __slots__ = ("_given", "_number", "_numbers", "_raw")

    def __init__(self, kind: Kind, weight: float, raw: bytes, number: int, numbers: Numbers) -> None:
        self._raw = raw
        self._number = number
        self._numbers = numbers
        self._given: bytes | None = None
        self.kind, self.weight, self.size = kind, weight, len(raw)
        self.cut, self.joined = None, False

    @property
    def data(self) -> bytes:  # type: ignore[override]
        if self._given is None:
            number = self._numbers.take(self._number)
            self._given = self._raw if number == self._number else renumbered(self._raw, number)
        return self._given


class Late(Piece):
    """An event of our own, made when it leaves."""

    __slots__ = ("_given", "_make")

    def __init__(self, make: Callable[[], bytes], size: int) -> None:
        self._make, self._given = make, b""
        self.kind, self.weight, self.size = Kind.STRUCTURE, 0.0, size
        self.cut, self.joined = None, False

    @property
    def data(self) -> bytes:  # type: ignore[override]
        self._given = self._given or self._make()
        return self._given


class Responses(TypedDialect):
    name = "responses"
    operation = "responses"

    def __init__(self, most_reasoning_tokens: float | None = None) -> None:
        super().__init__(None if most_reasoning_tokens is None else OfResponses(most_reasoning_tokens))
        self._numbers = Numbers()
        self._response: Members | None = None  # as response.created showed it, for a failure of our own
        self._refusal: Piece | None = None

    def understand(self, head: Head, event: Event) -> list[Piece]:
        kind = head.type
        number = head.sequence_number if isinstance(head.sequence_number, int) else None
        if type(head.delta) is str and kind.endswith(".delta"):
            return [self._delta(head, event, number)]
        if kind in _REFUSED:
            self._refuse(kind, event, number)
            return []
        if kind in _TERMINAL:
            self.committed = self.proven = self.ended = True
            self._usage(event.data)
        elif kind in _PREAMBLE:
            if kind == "response.created":
                self._created(event.data)
            elif kind == "keepalive":
                self.idle += 1
        else:
            self.committed = True
        return [self._piece(_announced(kind, event.data), 0.0, event.raw, number)]

    def _piece(self, kind: Kind, weight: float, raw: bytes, number: int | None) -> Piece:
        if number is None:
            return Piece(kind, weight, raw)
        return Numbered(kind, weight, raw, number, self._numbers)

    def _delta(self, head: Head, event: Event, number: int | None) -> Piece:
        kind = TEXTS.get(head.type)
        data, name, text = event.data, event.name, head.delta
        tokens = [str(entry.get("token")) for entry in head.logprobs or () if isinstance(entry, dict)] if head.logprobs is not UNSET else []
        if kind is None:
            self.committed = True
            guessed = next((guess for word, guess in _BY_WORD if word in head.type), Kind.STRUCTURE)
            weight = len(text) / 4 if guessed is not Kind.STRUCTURE else 0.0
            return self._piece(guessed, weight, event.raw, number)
        made = self.text_piece(kind, text, event.raw, lambda: self._parts(kind, text, data, name, number, tokens), len(tokens))
        if number is None:
            return made
        numbered = Numbered(made.kind, made.weight, event.raw, number, self._numbers)
        numbered.cut, numbered.joined = made.cut, made.joined
        return numbered

    def _parts(self, kind: Kind, text: str, data: bytes, name: bytes | None, number: int | None, tokens: list[str]) -> Sequence[Part]:
        borders = borders_of(text, tokens) if tokens else None
        if tokens and borders is None:
            return []
        top = jsontext.members(data)

        def stretch(start: int, end: int, first: bool, last: bool) -> bytes:
            out = {key: raw for key, raw in top.items() if first or key not in _ONCE}
            out["delta"] = jsontext.quote(text[start:end])
            if borders is not None:
                low = 0 if start == 0 else borders.index(start) + 1
                high = borders.index(end) + 1 if end != borders[-1] else len(borders)
                out["logprobs"] = jsontext.array(jsontext.elements(top["logprobs"])[low:high])
            if number is not None:
                if not first:
                    self._numbers.added += 1
                out["sequence_number"] = b"%d" % self._numbers.take(number)
            return render(jsontext.join(out), name)

        return [Part(kind, text, stretch, borders=borders)]

    def _created(self, data: bytes) -> None:
        response = jsontext.members(data).get("response", b"")
        if response.startswith(b"{"):
            self._response = jsontext.members(response)
            model = jsontext.value(self._response.get("model", b"null"))
            self.model = model if isinstance(model, str) else None

    def _usage(self, data: bytes) -> None:
        response = jsontext.members(data).get("response", b"")
        usage = jsontext.value(jsontext.members(response).get("usage", b"null")) if response.startswith(b"{") else None
        if isinstance(usage, dict):
            self.usage = Usage(usage.get("input_tokens"), usage.get("output_tokens"))

    # Failures

    def _refuse(self, kind: str, event: Event, number: int | None) -> None:
        """The upstream says that it failed: its own event ends the stream."""
        top = jsontext.members(event.data)
        if kind == "response.failed" and top.get("response", b"").startswith(b"{"):
            error = jsontext.value(jsontext.members(top["response"]).get("error", b"null"))
        elif top.get("error", b"null") != b"null":
            error = jsontext.value(top["error"])
        else:
            error = {key: jsontext.value(raw) for key, raw in top.items() if key in ("message", "code", "param")}
        body = jsontext.dump({"error": error if isinstance(error, dict) else {"message": str(error)}})
        self.failure = failure_of(error, body) if isinstance(error, dict) else Failure("upstream_error", str(error), status_of(error), body)
        self._refusal = self._piece(Kind.STRUCTURE, 0.0, event.raw, number)

    def fail(self, failure: Failure) -> Piece:
        if self._refusal is not None and failure is self.failure:
            return self._refusal
        told = _told(failure)
        opened = self.committed and self._response is not None

        def make() -> bytes:
            number = self._numbers.another()
            if not opened or self._response is None:
                return render(jsontext.dump({"type": "error", **told, "param": failure.param, "sequence_number": number}), b"error")
            response = {**self._response, "status": b'"failed"', "error": jsontext.dump(told)}
            top = {"type": b'"response.failed"', "sequence_number": b"%d" % number, "response": jsontext.join(response)}
            return render(jsontext.join(top), b"response.failed")

        return Late(make, len(failure.message) + 256)

    def close(self) -> list[Piece]:
        self.ended = True
        return []

    def heartbeat(self, style: Style) -> bytes | None:
        if style == "comment" or (style == "late" and self._numbers.last is None):
            return None
        return render(b'{"type":"keepalive","sequence_number":%d}' % self._numbers.another(), b"keepalive")

    @classmethod
    def gathered(cls, events: Iterable[Event]) -> bytes | Failure:
        """The terminal event repeats the whole response: that is the answer."""
        dialect = cls()
        for event in events:
            dialect.read(event)
            if dialect.failure is not None:
                return dialect.failure
            if dialect.ended:
                return jsontext.members(event.data).get("response", b"{}")
        return super().gathered(())


def renumbered(raw: bytes, number: int) -> bytes:
    """The event with another number. In a string the key's quotes are escaped, so only a member can match; where several do (items can
    have one of their own) the outermost is found by taking the object apart."""
    found = _NUMBER.findall(raw)
    if len(found) == 1:
        return _NUMBER.sub(b'"sequence_number":%d' % number, raw, count=1)
    head, _, data = raw.rpartition(b"data: ")
    top = jsontext.members(data)
    return head + b"data: " + jsontext.join({**top, "sequence_number": b"%d" % number}) + b"\n\n"


def _announced(kind: str, data: bytes) -> Kind:
    """An item that opens is the arrival of its kind: what is held of another must not keep it waiting."""
    if kind == "response.output_item.added":
        if b'"type":"reasoning"' in data:
            return Kind.REASONING
        return Kind.TOOL if b"_call" in data else Kind.CONTENT
    return Kind.STRUCTURE


def _told(failure: Failure) -> dict[str, Any]:
    if failure.body is not None:
        error = jsontext.value(failure.body).get("error")
        if isinstance(error, dict):
            return {"code": error.get("code") or error.get("type") or failure.code, "message": error.get("message") or failure.message}
    return {"code": failure.code, "message": failure.message}
