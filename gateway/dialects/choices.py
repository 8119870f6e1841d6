"""The protocol of streams made of chunks with choices: chat completions and legacy completions.

Owns the way of a chunk: a delta with one text, which is nearly every one, passes untouched on the fast way (`read`); any other is taken
apart and mended, and what needs the past is asked of those who keep it (finish reasons, open calls, halves of pairs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from gateway.dialects.alike import Alike
from gateway.dialects.base import DONE, FAULTS, Skimmed, error_body, structure
from gateway.dialects.calls import OpenCalls
from gateway.dialects.chunked import Chunked
from gateway.dialects.chunks import Chunk, belongs_to_each, text_of
from gateway.dialects.cutting import Part, cuttable
from gateway.dialects.finishes import Finishes
from gateway.dialects.halves import Halves
from gateway.dialects.heads import CHAT, COMPLETION
from gateway.dialects.reforms import Reformer, Wish
from gateway.dialects.reported import reported
from gateway.dialects.stretches import parts_of
from gateway.dialects.text import joins, weigh
from gateway.dialects.thinking import Thinking
from gateway.dialects.unasked import without_null, without_usage
from gateway.dialects.usage import of_choices
from gateway.errors import Failure
from gateway.piece import CUT_FROM_TOKENS, Kind, Piece
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event

_UNCLOSED: Final = b": the upstream never closed the reasoning in its text\n\n"
_ENVELOPE: Final = ("id", "object", "created", "model", "service_tier", "system_fingerprint")


class ChoicesDialect(Chunked):
    """`expected`: how many choices the request asked for. `wish`: how it wants reasoning.

    hides_usage: the client did not ask for the usage that the upstream was asked for.
    """

    def __init__(self, expected: int = 1, fallback_id: str = "", wish: Wish | None = None) -> None:
        super().__init__(fallback_id)
        self.hides_usage = False
        self._decoder: msgspec.json.Decoder[Any] = CHAT if self.has_delta else COMPLETION
        self._finishes = Finishes(expected)
        self._calls = OpenCalls()
        self._halves = Halves()
        self._alike = Alike()
        self._alike_kind = Kind.CONTENT
        self._alike_index = 0
        wish = wish or Wish()
        self._thinking = Thinking(wish.tags, wish.begins_inside)
        self._reformer = Reformer(wish, self._thinking) if wish.changes else None

    # Reading

    def skim(self, whole: bytes, at: int) -> Skimmed | None:
        kind = self._alike_kind
        watch = self._watch if kind is Kind.CONTENT else None
        if self.ended or (watch is not None and self._thinking.awake):
            return None
        found = self._alike.skim(whole, at, kind, self.text_tail, self._cuttable, watch)
        if found is not None:
            self.text_tail = found.tail
        return found

    def _watch(self, text: str, before: str) -> tuple[Kind, bool]:
        kind = self._thinking.kind(self._alike_index, text, before)
        return kind, not self._thinking.awake

    def read(self, event: Event) -> list[Piece]:
        if self.ended:
            return []
        alike = self._alike.text_in(event.raw)
        if alike is not None:
            return [self._continuing(self._told(alike, self._alike.as_it_leaves(event.raw)), alike)]
        came = event.raw
        if self.hides_usage and b'"usage"' in event.data:
            event = without_null(event)
        data = event.data
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
            or self._reformer is not None
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
        self._alike.learn(came, member, text, event.raw)
        self._alike_kind, self._alike_index = kind, choice.index
        if "<" in text or "`" in text or self._thinking.awake:
            if kind is Kind.CONTENT:
                kind = self._thinking.kind(choice.index, text, self.text_tail)
            elif kind is Kind.REASONING:
                self._thinking.elsewhere(choice.index)
        return [self._continuing(self._whole(kind, text, event.raw), text)]

    def _told(self, text: str, raw: bytes) -> Piece:
        """An event that is alike, with this text."""
        kind = self._alike_kind
        if kind is Kind.CONTENT and (self._thinking.awake or "<" in text or "`" in text):
            kind = self._thinking.kind(self._alike_index, text, self.text_tail)
        return self._whole(kind, text, raw)

    def _whole(self, kind: Kind, text: str, raw: bytes) -> Piece:
        """An event with one text and nothing else to say."""
        weight = weigh(text)
        return self._cuttable(kind, weight, raw) if weight > CUT_FROM_TOKENS else Piece(kind, weight, raw)

    def _cuttable(self, kind: Kind, weight: float, raw: bytes) -> Piece:
        return cuttable(kind, weight, raw, lambda: self._parts(raw[len(b"data: ") : -len(b"\n\n")], kind))

    def _continuing(self, piece: Piece, text: str) -> Piece:
        if text[0] > "\x7f" or text[0] == "\n" or self.text_tail[-1:] > "\x7f":  # else two letters meet
            piece.joined = joins(self.text_tail, text)
        self.text_tail = text
        return piece

    def _parts(self, data: bytes, kind: Kind) -> Sequence[Part]:
        top = jsontext.members(data)
        chunk = Chunk(top, jsontext.members(jsontext.elements(top["choices"])[0]), self.has_delta, 0, data)
        chunk.kind = kind
        return parts_of(chunk)

    def _read_carefully(self, event: Event) -> list[Piece]:
        self._alike.forget()
        data = event.data.strip()
        if data == b"[DONE]":
            return self._done()
        strict = jsontext.strict(jsontext.one_line(data))
        if strict != data:
            event = Event(event.name, strict, b"data: " + strict + b"\n\n")
        try:
            return self._read_object(event, jsontext.members(strict))
        except FAULTS:
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
        counted = usage is not None and usage.startswith(b"{")
        if usage is not None and counted:
            self._count(jsontext.value(usage))
        choices = top.get("choices", b"null")
        found = jsontext.elements(choices) if choices.startswith(b"[") else []
        raw = b"data: " + jsontext.join(top) + b"\n\n" if changed else event.raw
        if not found:
            if counted:  # what a finish reason would have to wait for does not follow
                self._finishes.counted()
                self.settled, self.doubtful = self._finishes.settled, self._finishes.doubtful
            released = self._pieces(self._finishes.release_all() if counted and self.proven else self._finishes.release(None))
            left = without_usage(top) if counted and self.hides_usage else top
            if left is not top and left is not None:
                raw = b"data: " + jsontext.join(left) + b"\n\n"
            return released if left is None else [*released, structure(raw)]
        if self._envelope is None:
            self._envelope = {key: top[key] for key in _ENVELOPE if key in top}
            self.model = text_of(top.get("model")) or None
        whole = not self._finishes.spoken
        if len(found) == 1:
            return self._read_chunk(Chunk(top, jsontext.members(found[0]), self.has_delta, 0, raw, whole))
        out: list[Piece] = []
        envelope = {key: raw for key, raw in top.items() if key == "choices" or belongs_to_each(key, raw)}
        for at, choice in enumerate(found):  # one event a choice: each can be split, held or finished for itself
            own = top if at == len(found) - 1 else envelope
            out += self._read_chunk(Chunk(dict(own), jsontext.members(choice), self.has_delta, at, whole=whole))
        return out

    def _read_chunk(self, chunk: Chunk) -> list[Piece]:
        if chunk.has_delta:
            self._calls.mend(chunk)
        self._halves.join(chunk)
        bare = chunk.bare()
        out = self._pieces(self._finishes.pass_on(chunk, bare))
        if not bare:
            self._finishes.spoke(chunk.index)
        finishes = self._finishes
        self.committed |= not bare or finishes.all_in
        self.proven, self.settled, self.doubtful = finishes.all_in, finishes.settled, finishes.doubtful
        if bare and not chunk.finish:
            self.idle += 1
        return out

    def _pieces(self, chunks: list[Chunk]) -> list[Piece]:
        reformer = self._reformer
        if reformer is None:
            for chunk in chunks:
                self._tell_kind(chunk)
            return [self._piece(chunk) for chunk in chunks]
        out = [self._piece(made) for chunk in chunks for made in reformer.take(chunk)]
        self.withheld += reformer.withheld
        reformer.withheld = 0.0
        return out

    def _tell_kind(self, chunk: Chunk) -> None:
        """Text between tags is reasoning, as what the fast way sees is."""
        text = text_of(chunk.delta.get("content" if self.has_delta else "text"))
        if text and (self._thinking.awake or "<" in text or "`" in text):
            chunk.kind = self._thinking.kind(chunk.index, text, self.text_tail)

    def _piece(self, chunk: Chunk) -> Piece:
        kind, weight = chunk.weight()
        data = chunk.render()
        if not weight:
            return Piece(Kind.TOOL if chunk.calls() else Kind.STRUCTURE, 0.0, data)
        piece = cuttable(kind, weight, data, lambda: parts_of(chunk)) if weight > CUT_FROM_TOKENS else Piece(kind, weight, data)
        texts = [text for name, _ in chunk.texts if (text := text_of(chunk.delta.get(name)))]
        return self._continuing(piece, texts[0]) if len(texts) == 1 else piece

    def _done(self) -> list[Piece]:
        if not self.committed:
            self.ended = True
            return []  # an empty answer is the stream's to judge
        self.proven = self.ended = True
        return self.close()

    def close(self) -> list[Piece]:
        out = [structure(data) for data in self._halves.rest(self._envelope or {}, self.has_delta)]
        out += self._pieces(self._finishes.release_all())
        if self._reformer is not None:
            out += map(self._piece, self._reformer.rest(self._envelope or {}, self.has_delta))
            if self._thinking.unclosed:
                out.append(structure(_UNCLOSED))
        self.ended = True
        return [*out, structure(DONE)]

    @property
    def remarks(self) -> tuple[str, ...]:
        odd = (("reasoning_unclosed", self._thinking.unclosed), ("reasoning_unopened", self._thinking.stray))
        return tuple(name for name, is_so in odd if is_so)

    def _count(self, usage: Any) -> None:
        self.usage = of_choices(usage) or self.usage

    # Our own events

    def fail(self, failure: Failure) -> Piece:
        data = b"data: " + jsontext.one_line(error_body(failure)) + b"\n\n"
        if self._reformer is not None:  # what was held as the beginning of a tag
            data = b"".join(chunk.render() for chunk in self._reformer.rest(self._envelope or {}, self.has_delta, whole=False)) + data
        return structure(data)
