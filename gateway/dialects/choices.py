"""The protocol of streams made of chunks with choices: chat completions and legacy completions.

Owns the way of a chunk: a delta with one text, which is nearly every one, passes untouched on the fast way (`read`); any other is taken
apart and mended, and what needs the past is asked of those who keep it (finish reasons, open calls, halves of pairs).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

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
_TAIL_CHARACTERS: Final = 64  # the longest emoji sequences have 35


class _Delta(msgspec.Struct, gc=False):
    role: Any = UNSET
    content: Any = UNSET
    reasoning_content: Any = UNSET
    reasoning: Any = UNSET
    refusal: Any = UNSET
    tool_calls: Any = UNSET
    function_call: Any = UNSET


class _Choice(msgspec.Struct, gc=False):
    index: Any = UNSET
    delta: Any = UNSET
    text: Any = UNSET
    finish_reason: Any = UNSET
    logprobs: Any = UNSET


class _ChatChoice(_Choice, gc=False):
    delta: _Delta | msgspec.UnsetType | None = UNSET


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]
    model: Any = UNSET
    usage: Any = UNSET
    error: Any = UNSET


class _ChatChunk(_Chunk, gc=False):
    choices: list[_ChatChoice]  # type: ignore[assignment]  # narrower on purpose


_CHAT: Final = msgspec.json.Decoder(_ChatChunk)
_COMPLETION: Final = msgspec.json.Decoder(_Chunk)
_ABSENT: Final = (UNSET, None)


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

    # Reading

    def read(self, event: Event) -> list[Piece]:
        data = event.data
        if self.ended:
            return []
        try:
            chunk = self._decoder.decode(data)
            choice = chunk.choices[0]
        except (msgspec.DecodeError, IndexError, RecursionError):
            return self._read_carefully(event)
        if (
            len(chunk.choices) > 1
            or type(choice.index) is not int
            or choice.finish_reason not in _ABSENT
            or choice.logprobs not in _ABSENT
            or chunk.error is not UNSET
            or self._envelope is None
            or self._finishes.waiting
            or self._halves
            or event.name is not None
            or b"\n" in data
        ):
            return self._read_carefully(event)
        if self.has_delta:
            delta = choice.delta
            if (
                type(delta) is not _Delta
                or delta.role is not UNSET
                or delta.tool_calls not in _ABSENT
                or delta.function_call not in _ABSENT
            ):
                return self._read_carefully(event)
            text, kind = delta.content, Kind.CONTENT
            if not text:
                text, kind = delta.reasoning_content or delta.reasoning, Kind.REASONING
            elif delta.reasoning_content or delta.reasoning:
                return self._read_carefully(event)
            if delta.refusal:
                return self._read_carefully(event)
        else:
            text, kind = choice.text, Kind.CONTENT
        if type(text) is not str or not text:
            return self._read_carefully(event)
        if chunk.usage not in _ABSENT:
            self._count(chunk.usage)
        self.committed = True
        self._finishes.spoke(choice.index)
        weight = weigh(text)
        piece = Piece(kind, weight, event.raw)
        if weight > CUT_FROM_TOKENS:
            piece = cuttable(kind, weight, event.raw, lambda: self._parts(data))
        return [self._continuing(piece, text)]

    def _continuing(self, piece: Piece, text: str) -> Piece:
        piece.joined = joins(self.text_tail, text)
        self.text_tail = text[-_TAIL_CHARACTERS:] if not text.isascii() else text[-1:]
        return piece

    def _parts(self, data: bytes) -> Sequence[Part]:
        top = jsontext.members(data)
        return Chunk(top, jsontext.members(jsontext.elements(top["choices"])[0]), self.has_delta, 0, data).parts()

    def _read_carefully(self, event: Event) -> list[Piece]:
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
