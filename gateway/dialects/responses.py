"""Responses: `POST /v1/responses`, `GET /v1/responses/{id}?stream=true`. Typed events with rising sequence numbers.

Splitting a delta makes more events than the upstream sent, so numbers are given when an event leaves: the upstream's own plus what was
added before it. As long as nothing was added an event keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from gateway.dialects import unrolled
from gateway.dialects.base import Dialect, Style
from gateway.dialects.cutting import Part
from gateway.dialects.heads import Head
from gateway.dialects.numbers import Late, Numbered, Numbers
from gateway.dialects.reported import MALFORMED, failure_of, reported_in, status_of
from gateway.dialects.text import borders_of
from gateway.dialects.typed import Text, TypedDialect
from gateway.dialects.usage import of_responses
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
_TERMINAL: Final = frozenset({"response.completed", "response.incomplete", "response.cancelled", "response.done"})
_REFUSED: Final = frozenset({"response.failed", "error"})
# What opens a stream or announces what is still empty: no content yet.
_PREAMBLE: Final = frozenset(
    {
        "response.created", "response.in_progress", "response.queued", "response.output_item.added", "response.content_part.added",
        "response.reasoning_summary_part.added", "keepalive",
    }
)  # fmt: skip
_PLACE: Final = ("item_id", "output_index", "content_index", "summary_index")  # which text of the answer
# What each part of a delta repeats. Of other members nobody knows whether a client adds them up, so they are said once.
_ENVELOPE: Final = frozenset({"type", "sequence_number", "delta", *_PLACE})


class Responses(TypedDialect):
    name: ClassVar[str] = "responses"
    operation: ClassVar[str] = "responses"

    def __init__(self, most_reasoning_tokens: float | None = None) -> None:
        super().__init__(None if most_reasoning_tokens is None else OfResponses(most_reasoning_tokens))
        self._numbers = Numbers()
        self._response: Members | None = None  # as response.created showed it, for a failure of our own
        self._refusal: Piece | None = None

    def understand(self, head: Head, event: Event) -> list[Piece]:
        kind = head.type
        number = head.sequence_number if type(head.sequence_number) is int else None
        if type(head.delta) is str and kind.endswith(".delta"):
            return [self._delta(head, event, number)]
        if head.delta is None and kind in TEXTS:  # clients add it to their text
            data = jsontext.join({**jsontext.members(event.data), "delta": b'""'})
            return [self._piece(Kind.STRUCTURE, 0.0, Event(event.name, data, render(data, event.name)), number)]
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
        return [self._piece(_announced(kind, event.data), 0.0, event, number)]

    def is_whole(self, top: Members) -> bool:
        return not self.committed and top.get("object") == b'"response"' and "output" in top

    def text_of(self, kind: str, top: Members) -> Text | None:
        delta = jsontext.value(top.get("delta", b"null"))
        if kind not in TEXTS or not isinstance(delta, str):
            return None
        return Text(TEXTS[kind], (kind, *(top.get(name) for name in _PLACE)), delta)

    def with_text(self, top: Members, text: str, bare: bool) -> Members:
        out = {key: raw for key, raw in top.items() if key in _ENVELOPE} if bare else top
        if bare and "logprobs" in top:
            out["logprobs"] = b"[]"
        return {**out, "delta": jsontext.quote(text)}

    def own_delta(self, event: Event) -> Piece:
        top = jsontext.members(event.data)
        if "sequence_number" not in top:
            return Piece(Kind.STRUCTURE, 0.0, event.raw)

        def make() -> bytes:
            return render(jsontext.join({**top, "sequence_number": b"%d" % self._numbers.another()}), event.name)

        return Late(make, len(event.raw))

    def _piece(self, kind: Kind, weight: float, event: Event, number: int | None) -> Piece:
        if number is None:
            return Piece(kind, weight, event.raw)
        return Numbered(kind, weight, event, number, self._numbers)

    def _delta(self, head: Head, event: Event, number: int | None) -> Piece:
        kind = TEXTS.get(head.type)
        text: str = head.delta
        scored = len(head.logprobs) if isinstance(head.logprobs, list) else 0
        if kind is None:
            self.committed = True
            guessed = next((guess for word, guess in _BY_WORD if word in head.type), Kind.STRUCTURE)
            weight = len(text) / 4 if guessed is not Kind.STRUCTURE else 0.0
            return self._piece(guessed, weight, event, number)
        made = self.text_piece(kind, text, event.raw, lambda: self._parts(kind, text, event, number), scored)
        if number is None:
            return made
        return Numbered(made.kind, made.weight, event, number, self._numbers, made.cut if made.cuttable else None, made.joined)

    def _parts(self, kind: Kind, text: str, event: Event, number: int | None) -> Sequence[Part]:
        top = jsontext.members(event.data)
        found = _scored(top.get("logprobs", b"null"), text)
        if found is None:
            return []
        entries, borders = found

        def stretch(start: int, end: int, first: bool, last: bool) -> bytes:
            out = {key: raw for key, raw in top.items() if last or key in _ENVELOPE or key == "logprobs"}
            out["delta"] = jsontext.quote(text[start:end])
            if borders:
                low = 0 if start == 0 else borders.index(start) + 1
                high = borders.index(end) + 1 if end != borders[-1] else len(borders)
                out["logprobs"] = jsontext.array(entries[low:high])
            if number is not None:
                if not first:
                    self._numbers.added += 1
                out["sequence_number"] = b"%d" % self._numbers.take(number)
            return render(jsontext.join(out), event.name)

        return [Part(kind, text, stretch, float(len(borders)) or None, borders or None)]

    def _created(self, data: bytes) -> None:
        response = jsontext.members(data).get("response", b"")
        if response.startswith(b"{"):
            self._response = jsontext.members(response)
            model = jsontext.value(self._response.get("model", b"null"))
            self.model = model if isinstance(model, str) else None

    def _usage(self, data: bytes) -> None:
        response = jsontext.members(data).get("response", b"")
        usage = jsontext.value(jsontext.members(response).get("usage", b"null")) if response.startswith(b"{") else None
        self.usage = of_responses(usage) or self.usage

    def follow(self, before: Dialect) -> None:
        """Heartbeats that the client got had numbers: the next attempt's go on behind them."""
        if isinstance(before, Responses):
            self._numbers = before._numbers

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
        if "type" in top:  # else it is of another protocol's shape, which not every client of this one reads
            self._refusal = self._piece(Kind.STRUCTURE, 0.0, event, number)

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
    def as_stream(cls, media_type: bytes, body: bytes) -> bytes | Failure:
        try:
            return reported_in(body) or unrolled.response(body)
        except (ValueError, TypeError, AttributeError):
            return super().as_stream(media_type, body)

    @classmethod
    def gathered(cls, events: Iterable[Event]) -> bytes | Failure:
        """The terminal event repeats the whole response: that is the answer."""
        dialect = cls()
        try:
            for event in events:
                failure = reported_in(event.data) if b'"delta"' not in event.data else None
                if failure is not None:
                    return failure
                if b'"response"' in event.data and _is_response(event.data):  # it was a whole response after all, in an event
                    return event.data
                dialect.read(event)
                if dialect.failure is not None:
                    return dialect.failure
                if dialect.ended:
                    response = jsontext.members(jsontext.strict(event.data)).get("response", b"")
                    return response if response.startswith(b"{") else MALFORMED
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return MALFORMED
        return super().gathered(())


def _scored(raw: bytes, text: str) -> tuple[list[bytes], list[int]] | None:
    """Log-probabilities, and the ends of their tokens in the text; None where they are not those of the text's tokens, since each is to
    arrive once, with its token."""
    if raw == b"null":
        return [], []
    if not raw.startswith(b"["):
        return None
    entries = jsontext.elements(raw)
    tokens = [entry.get("token") if isinstance(entry, dict) else None for entry in jsontext.value(raw)]
    borders = borders_of(text, tokens) if entries else []
    return None if borders is None else (entries, borders)


def _announced(kind: str, data: bytes) -> Kind:
    """An item that opens is the arrival of its kind: what is held of another must not keep it waiting."""
    if kind == "response.output_item.added":
        if b'"type":"reasoning"' in data:
            return Kind.REASONING
        return Kind.TOOL if b"_call" in data else Kind.CONTENT
    return Kind.STRUCTURE


def _is_response(data: bytes) -> bool:
    try:
        return jsontext.members(data).get("object") == b'"response"'
    except ValueError:
        return False


def _told(failure: Failure) -> dict[str, Any]:
    """Code and message, which are strings in this protocol."""
    if failure.body is not None:
        error = jsontext.value(failure.body).get("error")
        if isinstance(error, dict):
            code = error.get("code")
            if not isinstance(code, str) or code in ("", "upstream_error"):  # a status' number: the type says more than that
                code = error.get("type") or code or failure.code
            return {"code": str(code), "message": failure.message}
    return {"code": failure.code, "message": failure.message}
