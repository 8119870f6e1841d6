"""Messages, Anthropic's protocol: `POST /v1/messages`. Content blocks that open, grow by deltas and close, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from gateway.dialects.base import Style, Usage, structure
from gateway.dialects.cutting import Part
from gateway.dialects.reported import failure_of
from gateway.dialects.typed import Head, TypedDialect
from gateway.dialects.withholding import OfMessages
from gateway.errors import Failure
from gateway.piece import Kind, Piece
from gateway.wire import jsontext
from gateway.wire.sse import Event, render

# Type of a delta -> the member with its text, and its kind. Others (signatures, citations, what comes next) stay whole.
TEXTS: Final = {
    "text_delta": ("text", Kind.CONTENT),
    "thinking_delta": ("thinking", Kind.REASONING),
    "input_json_delta": ("partial_json", Kind.TOOL),
}
_BLOCKS: Final = {"text": Kind.CONTENT, "thinking": Kind.REASONING, "tool_use": Kind.TOOL, "server_tool_use": Kind.TOOL}
_PREAMBLE: Final = frozenset({"message_start", "ping"})
_STATUS_TYPES: Final = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
    429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip


class Messages(TypedDialect):
    name = "messages"

    def __init__(self, most_reasoning_tokens: float | None = None) -> None:
        super().__init__(None if most_reasoning_tokens is None else OfMessages(most_reasoning_tokens))
        self._input_tokens: int | None = None
        self._stopped = False

    def understand(self, head: Head, event: Event) -> list[Piece]:
        if event.name is None and head.type:  # Anthropic's SDKs ignore events without a name
            name = head.type.encode("utf-8", "replace").replace(b"\n", b" ")
            event = Event(name, event.data, render(event.data, name))
        kind = head.type
        if kind == "content_block_delta" and isinstance(head.delta, dict):
            return [self._delta(head.delta, event)]
        if kind == "error":
            self._refuse(event)
            return []
        if kind == "content_block_start":
            return [self._block(event)]
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

    def _delta(self, delta: dict[str, Any], event: Event) -> Piece:
        member, kind = TEXTS.get(delta.get("type", ""), ("", Kind.STRUCTURE))
        text = delta.get(member) if member else None
        if not isinstance(text, str) or not text:
            self.committed |= text is None
            return structure(event.raw)
        return self.text_piece(kind, text, event.raw, lambda: _parts(kind, member, text, event))

    def _block(self, event: Event) -> Piece:
        block = jsontext.value(jsontext.members(event.data).get("content_block", b"null"))
        kind = Kind.STRUCTURE
        if isinstance(block, dict):
            kind = _BLOCKS.get(block.get("type", ""), Kind.STRUCTURE)
            filled = any(block.get(member) for member in ("text", "thinking", "data", "content"))
            self.committed |= bool(filled) or kind is Kind.STRUCTURE
        return Piece(kind, 0.0, event.raw)

    def _start(self, data: bytes) -> None:
        message = jsontext.value(jsontext.members(data).get("message", b"null"))
        if isinstance(message, dict):
            self.model = message.get("model") if isinstance(message.get("model"), str) else None
            self._input_tokens = (message.get("usage") or {}).get("input_tokens")

    def _message_delta(self, delta: Any, data: bytes) -> None:
        usage = jsontext.value(jsontext.members(data).get("usage", b"null"))
        if isinstance(usage, dict):
            self.usage = Usage(usage.get("input_tokens") or self._input_tokens, usage.get("output_tokens"))
        if isinstance(delta, dict) and delta.get("stop_reason"):
            self.committed = self.proven = self.settled = True

    def _refuse(self, event: Event) -> None:
        top = jsontext.members(event.data)
        error = jsontext.value(top.get("error", b"null"))
        if not isinstance(error, dict):
            said = error or jsontext.value(top.get("message", b'""')) or "The upstream reported an error."
            error = {"type": "api_error", "message": str(said)}
            top = {"type": b'"error"', "error": jsontext.dump(error)}
        self.failure = failure_of(error, jsontext.join(top))

    def close(self) -> list[Piece]:
        self.ended = True
        if self._stopped:
            return []
        self._stopped = True
        return [structure(render(b'{"type":"message_stop"}', b"message_stop"))]

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
            error = jsontext.value(top.get("error", b"null"))
            message = error.get("message") if isinstance(error, dict) else None
        else:
            message = None
        kind = _STATUS_TYPES.get(failure.http_status, "api_error")
        told = {"type": kind, "message": message or failure.message, "code": failure.code}
        return jsontext.dump({"type": "error", "error": told})

    @classmethod
    def gathered(cls, events: Iterable[Event]) -> bytes | Failure:
        """The message that the events add up to."""
        message: dict[str, Any] = {}
        inputs: dict[int, str] = {}
        for event in events:
            try:
                data = jsontext.value(jsontext.strict(event.data))
            except ValueError:
                continue
            kind = data.get("type") if isinstance(data, dict) else None
            if kind == "error":
                return failure_of(data.get("error"), event.data)
            if kind == "message_start":
                message = data["message"]
            elif kind == "content_block_start":
                message.setdefault("content", []).append(data["content_block"])
            elif kind == "content_block_delta":
                _add(message["content"][data["index"]], data["delta"], inputs, data["index"])
            elif kind == "message_delta":
                message.update(data.get("delta") or {})
                message["usage"] = {**(message.get("usage") or {}), **(data.get("usage") or {})}
        if not message.get("stop_reason"):
            return super().gathered(())
        for index, text in inputs.items():
            message["content"][index]["input"] = jsontext.value(text.encode() or b"{}")
        return jsontext.dump(message)


def _parts(kind: Kind, member: str, text: str, event: Event) -> Sequence[Part]:
    top = jsontext.members(event.data)
    delta = jsontext.members(top["delta"])
    always = ("type", member)

    def stretch(start: int, end: int, first: bool, last: bool) -> bytes:
        piece = {key: raw for key, raw in delta.items() if last or key in always}
        piece[member] = jsontext.quote(text[start:end])
        return render(jsontext.join({**top, "delta": jsontext.join(piece)}), event.name)

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
