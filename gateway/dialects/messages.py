"""Messages, Anthropic's protocol: `POST /v1/messages`. Content blocks that open, grow by deltas and close, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from gateway.dialects import unrolled
from gateway.dialects.base import Style, structure
from gateway.dialects.cutting import Part
from gateway.dialects.heads import Head
from gateway.dialects.reported import MALFORMED, failure_of, reported_in
from gateway.dialects.typed import Text, TypedDialect, named
from gateway.dialects.usage import of_messages
from gateway.dialects.withholding import OfMessages
from gateway.errors import Failure
from gateway.piece import Kind, Piece
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event, render

# Type of a delta -> the member with its text, and its kind. Others (signatures, citations, what comes next) stay whole.
TEXTS: Final = {
    "text_delta": ("text", Kind.CONTENT),
    "thinking_delta": ("thinking", Kind.REASONING),
    "input_json_delta": ("partial_json", Kind.TOOL),
}
_BLOCKS: Final = {"text": Kind.CONTENT, "thinking": Kind.REASONING, "tool_use": Kind.TOOL, "server_tool_use": Kind.TOOL}
# What each part of a delta repeats. Of other members nobody knows whether a client adds them up, so they are said once.
_ENVELOPE: Final = frozenset({"type", "index", "delta"})
_PREAMBLE: Final = frozenset({"message_start", "ping"})
_STATUS_TYPES: Final = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip
_TYPES: Final = frozenset({*_STATUS_TYPES.values(), "api_error"})


class Messages(TypedDialect):
    name: ClassVar[str] = "messages"

    def __init__(self, most_reasoning_tokens: float | None = None) -> None:
        super().__init__(None if most_reasoning_tokens is None else OfMessages(most_reasoning_tokens))
        self._prompt: Any = None  # the usage in message_start
        self._stopped = False

    def understand(self, head: Head, event: Event) -> list[Piece]:
        if event.name is None and head.type:  # Anthropic's SDKs ignore events without a name
            name = head.type.encode("utf-8", "replace").replace(b"\r", b" ").replace(b"\n", b" ")
            event = Event(name, event.data, render(event.data, name))
        kind = head.type
        if kind == "content_block_delta" and isinstance(head.delta, dict):
            return [self._delta(head.delta, event)]
        if kind == "error":
            self._refuse(event)
            return []
        if kind == "content_block_start":
            return [self._block(event)]
        if kind == "message" and not self.committed and self.is_whole(jsontext.members(event.data)):
            return self.read_whole(event.data)
        if kind == "message_start":
            self._start(event.data)
        elif kind == "message_delta":
            self._message_delta(head.delta, event.data)
        elif kind == "message_stop":
            self._stopped = True
            self.committed = self.proven = self.ended = True
        elif kind == "ping":
            self.idle += 1
        elif kind != "content_block_stop":
            self.committed = True
        return [structure(event.raw)]

    def is_whole(self, top: Members) -> bool:
        return "content" in top and "stop_reason" in top

    def text_of(self, kind: str, top: Members) -> Text | None:
        delta = jsontext.value(top.get("delta", b"null"))
        if kind != "content_block_delta" or named(delta) not in TEXTS:
            return None
        member, text_kind = TEXTS[named(delta)]
        text = delta.get(member)
        return Text(text_kind, (top.get("index"), member), text) if isinstance(text, str) else None

    def with_text(self, top: Members, text: str, bare: bool) -> Members:
        delta = jsontext.members(top["delta"])
        member, _ = TEXTS[named(jsontext.value(top["delta"]))]
        kept = {key: raw for key, raw in delta.items() if not bare or key == "type"}
        out = {key: raw for key, raw in top.items() if not bare or key in _ENVELOPE}
        return {**out, "delta": jsontext.join({**kept, member: jsontext.quote(text)})}

    def own_delta(self, event: Event) -> Piece:
        name = event.name or b"content_block_delta"
        return structure(render(event.data, name))

    def _delta(self, delta: dict[str, Any], event: Event) -> Piece:
        member, kind = TEXTS.get(named(delta), ("", Kind.STRUCTURE))
        text = delta.get(member) if member else None
        if not isinstance(text, str) or not text:
            self.committed |= text is None
            return structure(event.raw)
        return self.text_piece(kind, text, event.raw, lambda: _parts(kind, member, text, event))

    def _block(self, event: Event) -> Piece:
        block = jsontext.value(jsontext.members(event.data).get("content_block", b"null"))
        kind = Kind.STRUCTURE
        if isinstance(block, dict):
            kind = _BLOCKS.get(named(block), Kind.STRUCTURE)
            filled = any(block.get(member) for member in ("text", "thinking", "data", "content"))
            self.committed |= bool(filled) or kind is Kind.STRUCTURE
        return Piece(kind, 0.0, event.raw)

    def _start(self, data: bytes) -> None:
        message = jsontext.value(jsontext.members(data).get("message", b"null"))
        if isinstance(message, dict):
            self.model = message.get("model") if isinstance(message.get("model"), str) else None
            self._prompt = message.get("usage")
            self.begun_usage = of_messages(self._prompt)

    def _message_delta(self, delta: Any, data: bytes) -> None:
        usage = jsontext.value(jsontext.members(data).get("usage", b"null"))
        if isinstance(usage, dict):
            self.usage = of_messages(self._prompt, usage)
        if isinstance(delta, dict) and delta.get("stop_reason"):
            self.committed = self.proven = self.settled = True

    def _refuse(self, event: Event) -> None:
        top = jsontext.members(event.data)
        error = jsontext.value(top.get("error", b"null"))
        if not isinstance(error, dict):
            said = error or jsontext.value(top.get("message", b'""')) or "The upstream reported an error."
            error = {"type": "api_error", "message": str(said)}
            top = {"type": b'"error"', "error": jsontext.dump(error)}
        failure = failure_of(error, jsontext.join(top))
        self.failure = replace(failure, status=529) if error.get("type") == "overloaded_error" else failure  # this API's own status

    def close(self) -> list[Piece]:
        self.ended = True
        if self._stopped:
            return []
        self._stopped = True
        return [*self.halves_left(), structure(render(b'{"type":"message_stop"}', b"message_stop"))]

    def fail(self, failure: Failure) -> Piece:
        return structure(render(jsontext.one_line(self.error_body(failure)), b"error"))

    def heartbeat(self, style: Style) -> bytes | None:
        return None if style == "comment" else b'event: ping\ndata: {"type": "ping"}\n\n'

    @classmethod
    def error_body(cls, failure: Failure) -> bytes:
        if failure.body is not None:
            top = jsontext.members(failure.body)
            if top.get("type") == b'"error"':
                return failure.body
            error = jsontext.members(top["error"])
        else:
            error = {}
        kind = jsontext.quote(_STATUS_TYPES.get(failure.http_status, "api_error"))
        told = {"message": jsontext.quote(failure.message), "code": jsontext.quote(failure.code), **error}
        if jsontext.value(told.get("type", b"null")) not in _TYPES:
            told["type"] = kind
        return b'{"type":"error","error":' + jsontext.join({"type": kind, **told}) + b"}"

    @classmethod
    def as_stream(cls, media_type: bytes, body: bytes) -> bytes | Failure:
        try:
            return reported_in(body) or unrolled.message(body)
        except (ValueError, TypeError, AttributeError):
            return super().as_stream(media_type, body)

    @classmethod
    def gathered(cls, events: Iterable[Event]) -> bytes | Failure:
        """The message that the events add up to."""
        try:
            return _added_up(events) or super().gathered(())
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return MALFORMED


def _added_up(events: Iterable[Event]) -> bytes | Failure | None:
    """None where no end was seen; one of the exceptions of a wrong shape where an event is not as it should be."""
    message: dict[str, Any] = {}
    inputs: dict[int, str] = {}
    for event in events:
        failure = reported_in(event.data) if b'"delta"' not in event.data else None
        if failure is not None:
            return failure
        if not event.data.lstrip().startswith(b"{"):  # a [DONE], a middle hop's words
            continue
        data = jsontext.value(jsontext.strict(event.data))
        kind = data.get("type")
        if kind == "message" and "content" in data:  # it was a whole message after all, in an event
            return event.data
        if kind == "message_start":
            message = _object(data["message"])
        elif kind == "content_block_start":
            message.setdefault("content", []).append(data["content_block"])
        elif kind == "content_block_delta":
            _add(message["content"][data["index"]], data["delta"], inputs, data["index"])
        elif kind == "message_delta":
            message.update(data.get("delta") or {})
            message["usage"] = {**(message.get("usage") or {}), **(data.get("usage") or {})}
    if not message.get("stop_reason"):
        return None
    blocks = message.get("content", [])
    whole = {key: jsontext.dump(value) for key, value in message.items()}
    whole["content"] = jsontext.array([_block_with(block, inputs.get(at)) for at, block in enumerate(blocks)])
    return jsontext.join(whole)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return value


def _block_with(block: dict[str, Any], text: str | None) -> bytes:
    """A block, with its input in the bytes in which it came: numbers keep their digits."""
    made = {key: jsontext.dump(value) for key, value in block.items()}
    if text:
        raw = text.encode("utf-8", "surrogatepass")
        # input that was cut is shown as Anthropic's documentation says that such input is to be handed on
        made["input"] = raw if jsontext.is_object(raw) else b'{"INVALID_JSON":' + jsontext.quote(text) + b"}"
    return jsontext.join(made)


def _parts(kind: Kind, member: str, text: str, event: Event) -> Sequence[Part]:
    top = jsontext.members(event.data)
    delta = jsontext.members(top["delta"])

    def stretch(start: int, end: int, first: bool, last: bool) -> bytes:
        piece = {key: raw for key, raw in delta.items() if last or key in ("type", member)}
        piece[member] = jsontext.quote(text[start:end])
        whole = {key: raw for key, raw in top.items() if last or key in _ENVELOPE}
        return render(jsontext.join({**whole, "delta": jsontext.join(piece)}), event.name)

    made: Callable[[int, int, bool, bool], bytes] = stretch
    return [Part(kind, text, made)]


def _add(block: dict[str, Any], delta: dict[str, Any], inputs: dict[int, str], index: int) -> None:
    member = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(delta.get("type", ""))
    if member is not None:
        block[member] = block.get(member, "") + delta[member]
    elif delta.get("type") == "input_json_delta":
        inputs[index] = inputs.get(index, "") + delta["partial_json"]
    elif delta.get("type") == "citations_delta":
        block.setdefault("citations", []).append(delta.get("citation"))
