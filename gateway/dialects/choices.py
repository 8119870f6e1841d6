"""The protocol of streams made of chunks with choices: chat completions and legacy completions.

Owns the way of a chunk: a delta with one text, which is nearly every one, passes untouched on the fast way (`read`); any other is taken
apart and mended, and what needs the past is asked of those who keep it (finish reasons, open calls, halves of pairs).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from gateway.dialects.alike import Alike
from gateway.dialects.base import CUT_FROM_TOKENS, DONE, Dialect, Style, Usage, error_body, structure
from gateway.dialects.calls import OpenCalls
from gateway.dialects.chunks import Chunk, text_of
from gateway.dialects.cutting import Part, cuttable
from gateway.dialects.finishes import Finishes
from gateway.dialects.halves import Halves
from gateway.dialects.reported import reported
from gateway.dialects.text import joins, weigh
from gateway.dialects.whole import as_completion, as_stream
from gateway.errors import Failure
from gateway.piece import Kind, Piece
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event

_ENVELOPE: Final = ("id", "object", "created", "model", "system_fingerprint")


class _Delta(msgspec.Struct, gc=False):
    # UNSET only where null is to be told from absence: it must be mended.
    role: Any = UNSET
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(msgspec.Struct, gc=False):
    index: Any = None
    text: Any = None
    finish_reason: Any = None
    logprobs: Any = None


class _ChatChoice(_Choice, gc=False):
    delta: _Delta | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]
    usage: Any = None
    error: Any = UNSET


class _ChatChunk(_Chunk, gc=False):
    choices: list[_ChatChoice]  # type: ignore[assignment]  # narrower on purpose


_CHAT: Final = msgspec.json.Decoder(_ChatChunk)
_COMPLETION: Final = msgspec.json.Decoder(_Chunk)


class ChoicesDialect(Dialect):
    """`expected`: how many choices the request asked for."""

    has_delta = True
    object_name = "chat.completion.chunk"

    def __init__(self, expected: int = 1, fallback_id: str = "") -> None:
        super().__init__()
        self._decoder: msgspec.json.Decoder[Any] = _CHAT if self.has_delta else _COMPLETION
        self._id = fallback_id
        self._finishes = Finishes(expected)
        self._calls = OpenCalls()
        self._halves = Halves()
        self._envelope: Members | None = None  # of the first chunk: for chunks of our own
        self._alike = Alike()
        self._alike_kind = Kind.CONTENT

    # Reading

    def read(self, event: Event) -> list[Piece]:
        data = event.data
        if self.ended:
            return []
        alike = self._alike.text_in(data)
        if alike is not None and event.name is None:
            kind = self._alike_kind
            weight = weigh(alike)
            if weight <= CUT_FROM_TOKENS:
                return [self._continuing(Piece(kind, weight, event.raw), alike)]
        try:
            chunk = self._decoder.decode(data)
            choice = chunk.choices[0]
        except (msgspec.DecodeError, IndexError, RecursionError):
            return self._read_carefully(event)
        if (
            choice.finish_reason is not None
            or choice.logprobs is not None
            or chunk.error is not UNSET
            or type(choice.index) is not int
            or len(chunk.choices) > 1
            or self._envelope is None
            or self._finishes.any_in
            or self._halves.waiting
            or event.name is not None
            or b"\n" in data
        ):
            return self._read_carefully(event)
        if self.has_delta:
            delta = choice.delta
            if (
                delta is None
                or delta.role is not UNSET
                or delta.refusal
                or delta.function_call is not None
                or (delta.reasoning_content and delta.reasoning)
            ):
                return self._read_carefully(event)
            text, kind, member = delta.content, Kind.CONTENT, b"content"
            thought = delta.reasoning_content or delta.reasoning
            if delta.tool_calls is not None:
                arguments = self._calls.going_on(choice.index, delta.tool_calls)
                if arguments is None or text or thought:
                    return self._read_carefully(event)
                text, kind, member = arguments, Kind.TOOL, b"arguments"
            elif thought:
                if text:
                    return self._read_carefully(event)
                text, kind = thought, Kind.REASONING
                member = b"reasoning_content" if delta.reasoning_content else b"reasoning"
        else:
            text, kind, member = choice.text, Kind.CONTENT, b"text"
        if type(text) is not str or not text:
            return self._read_carefully(event)
        if chunk.usage is not None:
            self._count(chunk.usage)
        self.committed = True
        self._finishes.spoke(choice.index)
        self._alike.learn(data, member, text)
        self._alike_kind = kind
        weight = weigh(text)
        if weight > CUT_FROM_TOKENS:
            return [self._continuing(cuttable(kind, weight, event.raw, lambda: self._parts(data)), text)]
        return [self._continuing(Piece(kind, weight, event.raw), text)]

    def _continuing(self, piece: Piece, text: str) -> Piece:
        if text[0] > "\x7f" or text[0] == "\n" or self.text_tail[-1:] > "\x7f":  # else two letters meet
            piece.joined = joins(self.text_tail, text)
        self.text_tail = text
        return piece

    def _parts(self, data: bytes) -> Sequence[Part]:
        top = jsontext.members(data)
        return Chunk(top, jsontext.members(jsontext.elements(top["choices"])[0]), self.has_delta, 0, data).parts()

    def _read_carefully(self, event: Event) -> list[Piece]:
        self._alike.forget()
        data = event.data.strip()
        if data == b"[DONE]":
            return self._done()
        if b"\n" in data:
            data = jsontext.one_line(data)
            event = Event(event.name, data, b"data: " + data + b"\n\n")
        try:
            top = jsontext.members(data)
        except ValueError:
            try:
                data = jsontext.strict(data)
                top = jsontext.members(data)
                event = Event(event.name, data, b"data: " + data + b"\n\n")
            except ValueError:
                return self.dropped(event)
        try:
            return self._read_object(event, top)
        except (ValueError, TypeError, AttributeError):
            return self.dropped(event)

    def _read_object(self, event: Event, top: Members) -> list[Piece]:
        self.failure = reported(top)
        if self.failure is not None:
            return []
        changed = False
        if "error" in top:  # null: its mere presence breaks openai-go
            del top["error"]
            changed = True
        usage = top.get("usage")
        if usage is not None and usage.startswith(b"{"):
            self._count(jsontext.value(usage))
        choices = top.get("choices", b"null")
        found = jsontext.elements(choices) if choices.startswith(b"[") else []
        raw = b"data: " + jsontext.join(top) + b"\n\n" if changed else event.raw
        if not found:
            return [*map(self._piece, self._finishes.release(None)), structure(raw)]
        if self._envelope is None:
            self._envelope = {key: top[key] for key in _ENVELOPE if key in top}
            self.model = text_of(top.get("model")) or None
        if len(found) == 1:
            return self._read_chunk(Chunk(top, jsontext.members(found[0]), self.has_delta, 0, raw))
        out: list[Piece] = []
        without_usage = {key: value for key, value in top.items() if key != "usage"}
        for at, choice in enumerate(found):  # one event a choice: each can be split, held or finished for itself
            own = top if at == len(found) - 1 else without_usage
            out += self._read_chunk(Chunk(dict(own), jsontext.members(choice), self.has_delta, at))
        return out

    def _read_chunk(self, chunk: Chunk) -> list[Piece]:
        if chunk.has_delta:
            self._calls.mend(chunk)
        self._halves.join(chunk)
        bare = chunk.bare()
        out = [self._piece(each) for each in self._finishes.pass_on(chunk, bare)]
        if not bare:
            self._finishes.spoke(chunk.index)
        self.committed |= not bare or self._finishes.all_in
        self.proven = self._finishes.all_in
        return out

    def _piece(self, chunk: Chunk) -> Piece:
        kind, weight = chunk.weight()
        data = chunk.render()
        if not weight:
            return Piece(Kind.TOOL if chunk.calls() else Kind.STRUCTURE, 0.0, data)
        piece = cuttable(kind, weight, data, chunk.parts) if weight > CUT_FROM_TOKENS else Piece(kind, weight, data)
        texts = [text for name, _ in chunk.texts if (text := text_of(chunk.delta.get(name)))]
        return self._continuing(piece, texts[0]) if len(texts) == 1 else piece

    def _done(self) -> list[Piece]:
        if not self.committed:
            return []  # an empty answer is the stream's to judge
        self.proven = self.ended = True
        return self.close()

    def close(self) -> list[Piece]:
        out = [structure(data) for data in self._halves.rest(self._envelope or {}, self.has_delta)]
        out += map(self._piece, self._finishes.release_all())
        self.ended = True
        return [*out, structure(DONE)]

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self.usage = Usage(_number(usage.get("prompt_tokens")), _number(usage.get("completion_tokens")))

    # Our own events

    def fail(self, failure: Failure) -> Piece:
        return structure(b"data: " + jsontext.one_line(error_body(failure)) + b"\n\n")

    @classmethod
    def as_stream(cls, media_type: bytes, body: bytes) -> bytes | Failure:
        return as_stream(media_type, body)

    @classmethod
    def gathered(cls, events: Iterable[Event]) -> bytes | Failure:
        return as_completion(events)

    def heartbeat(self, style: Style) -> bytes | None:
        if style != "chunk":
            return None
        envelope = self._envelope or {
            "id": jsontext.quote(self._id),
            "object": jsontext.quote(self.object_name),
            "created": b"0",
            "model": jsontext.quote(self.model or ""),
        }
        delta = b'"delta":{}' if self.has_delta else b'"text":""'
        return b"data: " + jsontext.join({**envelope, "choices": b'[{"index":0,' + delta + b',"finish_reason":null}]'}) + b"\n\n"


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None
