"""Reasoning in the form that the client asked for: a chunk in, chunks out.

Owns where reasoning stands in a chunk, in whichever of the forms that servers use, and how it is written in the wanted one. It must not
know events, pieces or time. Invariants: text keeps its order and every character (tags are no text, and are written anew where the form
needs them); a chunk without reasoning or tags passes with its bytes; signatures and encrypted parts pass untouched, save under `hidden`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gateway.dialects.chunks import Chunk, belongs_to_each
from gateway.dialects.quota import Quota
from gateway.dialects.sources import DETAILS, Sources, Text
from gateway.dialects.thinking import TAGS, Thinking
from gateway.piece import Kind
from gateway.wire import jsontext
from gateway.wire.jsontext import Members

Format = Literal["as_is", "reasoning_content", "reasoning", "think_tags", "tagged", "hidden"]
# What the answers of each API can be made to say. Where there is no field for reasoning, it cannot be put into one.
FORMATS: Final[dict[str, tuple[Format, ...]]] = {
    "chat": ("as_is", "reasoning_content", "reasoning", "think_tags", "tagged", "hidden"),
    "completions": ("as_is", "think_tags", "hidden"),
    "responses": ("as_is", "hidden"),
    "messages": ("as_is", "hidden"),
}
_FIELDS: Final = {"reasoning_content": "reasoning_content", "reasoning": "reasoning", "tagged": "reasoning_content"}
_OPEN, _CLOSE = "<think>", "</think>"
_EMPTY: Final = (b"null", b'""', b"[]", b"{}")


@dataclass(frozen=True, slots=True)
class Wish:
    """How a request wants reasoning. tagged: deltas say `reasoning_tag`. most_tokens: what lies beyond is not delivered.

    tags: names of tags that hold reasoning in the text. begins_inside: the text does, before any tag.
    """

    format: Format = "as_is"
    tagged: bool = False
    most_tokens: float | None = None
    tags: tuple[str, ...] = TAGS
    begins_inside: bool = False

    @property
    def changes(self) -> bool:
        """Whether anything is to be done to what the upstream sends."""
        return self.format != "as_is" or self.tagged or self.most_tokens is not None


@dataclass(slots=True)
class _Run:
    """One choice: what it may be given; a run of reasoning is open, in that field; a role was sent."""

    quota: Quota
    open: bool = False
    field: str = "content"
    role: bool = False


class Reformer:
    """withheld: tokens that were kept back since it was last set to zero."""

    def __init__(self, wish: Wish, thinking: Thinking) -> None:
        self._hidden = wish.format == "hidden"
        self._tagged = wish.tagged or wish.format == "tagged"
        self._field = _FIELDS.get(wish.format)
        self._as_tags = wish.format == "think_tags"
        self._most = 0.0 if self._hidden else float("inf") if wish.most_tokens is None else wish.most_tokens
        self._sources = Sources(thinking, split=wish.format != "as_is")
        self._runs: dict[int, _Run] = {}
        self.withheld = 0.0

    def take(self, chunk: Chunk) -> list[Chunk]:
        """What leaves in place of this chunk."""
        run = self._runs.get(chunk.index)
        if run is None:
            run = self._runs[chunk.index] = _Run(Quota(self._most))
        ends = chunk.finish or bool(chunk.calls()) or chunk.delta.get("function_call", b"").startswith(b"{")
        found = self._sources.take(chunk, ends)
        before = run.quota.withheld
        listed = None if found.texts else self._sources.listed(chunk)
        if listed is not None:
            made = self._whole(run, chunk, *listed)
            self.withheld += run.quota.withheld - before
            return made
        texts = self._written(run, found.texts, ends)
        withheld = run.quota.withheld - before
        self.withheld += withheld
        rest = {key: raw for key, raw in found.rest.items() if not self._hides(run, key, raw)}
        same = [(text.field, text.text) for text in texts] == found.before and len(rest) == len(found.rest)
        if same and len(texts) < 2 and not found.parts and not any(text.tag for text in texts):
            run.role |= "role" in chunk.delta
            if texts:
                chunk.kind = texts[0].kind
            return [chunk]
        made = self._chunks(run, chunk, texts, rest)
        if withheld and self._hidden:  # tokens with their probabilities are the text again
            for each in made:
                if "logprobs" in each.choice:
                    each.choice["logprobs"] = b"null"
        return made

    def _whole(self, run: _Run, chunk: Chunk, kind: Kind, reasoning: str) -> list[Chunk]:
        """A chunk whose text stays in the lists that it stands in: it leaves as it is, or without them."""
        if kind is not Kind.REASONING:
            closing: list[Text] = []
            self._close(run, closing)
            return [*(_chunk(chunk, text, {}, False) for text in closing), chunk]
        if run.quota.allow(reasoning) != reasoning:
            return self._chunks(run, chunk, [], {key: raw for key, raw in chunk.delta.items() if key != "content" and key not in DETAILS})
        if self._tagged:
            chunk.delta["reasoning_tag"] = b'"think_chunk"' if run.open else b'"think_open"'
            chunk.changed = run.open = True
        return [chunk]

    def rest(self, envelope: Members, has_delta: bool, whole: bool = True) -> list[Chunk]:
        """What is still owed to choices that have no finish reason. `whole`: the stream ended properly, so what is open is closed."""
        out: list[Chunk] = []
        for index, run in self._runs.items():
            template = Chunk(envelope, {"index": b"%d" % index, "delta": b"{}", "finish_reason": b"null"}, has_delta, index)
            if not has_delta:
                del template.choice["delta"]
            texts = self._written(run, self._sources.flush(index, "content" if has_delta else "text"), whole)
            out += [_chunk(template, text, {}, False) for text in texts]
        return out

    # Writing

    def _written(self, run: _Run, texts: Sequence[Text], ends: bool) -> list[Text]:
        out: list[Text] = []
        for text in texts:
            if text.kind is Kind.REASONING:
                self._reason(run, text, out)
            else:
                self._close(run, out)
                _put(out, text)
        if ends:
            self._close(run, out)
        return out

    def _reason(self, run: _Run, text: Text, out: list[Text]) -> None:
        told = text.text
        if text.mark:  # a tag: is written anew, or stays where reasoning does
            if self._field or self._as_tags or self._hidden:
                return
        else:
            told = run.quota.allow(told)
            if not told:
                return
        field, tag = self._field or text.field, ""
        if self._as_tags:
            run.field = field = text.content_field
            told = told if run.open else _OPEN + told
        if self._tagged:
            tag = "think_chunk" if run.open else "think_open"
        run.open = True
        _put(out, Text(Kind.REASONING, field, told, tag=tag))

    def _close(self, run: _Run, out: list[Text]) -> None:
        if not run.open:
            return
        run.open = False
        if self._as_tags:
            _put(out, Text(Kind.REASONING, run.field, _CLOSE))
        elif self._tagged:
            out.append(Text(Kind.STRUCTURE, "", "", tag="think_close"))

    def _hides(self, run: _Run, key: str, raw: bytes) -> bool:
        """Whether a member goes with the reasoning that is kept back."""
        if self._hidden:
            return key.startswith(("reasoning", "thinking")) and raw not in _EMPTY
        return run.quota.exceeded and key in ("reasoning_details", "thinking_blocks") and bool(self._sources.detailed(raw))

    def _chunks(self, run: _Run, chunk: Chunk, texts: list[Text], rest: Members) -> list[Chunk]:
        role = rest.pop("role", None)
        kept = any(raw not in _EMPTY for raw in rest.values()) or chunk.finish
        kept |= chunk.top.get("usage", b"null") != b"null" or (role is not None and not run.role)
        # A finish reason, or a list under the name that a text has now, stands in a chunk of its own.
        apart = bool(texts) and (chunk.finish or any(rest.get(text.field, b"null") not in _EMPTY for text in texts))
        out: list[Chunk] = []
        for at, text in enumerate(texts):
            last = at == len(texts) - 1 and not apart
            others = {"role": role} if role is not None and not at else {}
            if last:
                others |= {key: raw for key, raw in rest.items() if key != text.field}
            out.append(_chunk(chunk, text, others, last))
        if apart or (not texts and kept):
            others = {"role": role} if role is not None and not texts else {}
            out.append(_chunk(chunk, None, others | rest, True))
        run.role |= role is not None and bool(out)
        return out


def _put(out: list[Text], text: Text) -> None:
    """Texts of one kind under one name that follow each other are one."""
    if out and (out[-1].kind, out[-1].field) == (text.kind, text.field) and (out[-1].tag != "" or text.tag == ""):
        out[-1] = out[-1].with_text(out[-1].text + text.text)
    else:
        out.append(text)


def _chunk(source: Chunk, text: Text | None, others: Members, last: bool) -> Chunk:
    """A chunk like the source with one text. What is said once per event goes with the last that is made of it."""
    top = {key: raw for key, raw in source.top.items() if last or key == "choices" or belongs_to_each(key, raw)}
    top.setdefault("choices", b"[]")  # is written when the chunk is rendered
    if not last and "usage" in source.top:
        top["usage"] = b"null"
    once = ("finish_reason", "logprobs")
    choice = {key: raw if last or key not in once else b"null" for key, raw in source.choice.items()}
    if not source.has_delta:
        choice = {key: raw for key, raw in choice.items() if last or key == "index" or key in once}
        choice.pop("text", None)
        made = Chunk(top, choice | others | {"text": b'""'}, False, source.index)
    else:
        choice["delta"] = b"{}"
        made = Chunk(top, choice, True, source.index)
        made.delta = dict(others)
    if text is not None:
        if text.field:
            made.delta[text.field] = jsontext.quote(text.text)
        if text.tag:
            made.delta["reasoning_tag"] = jsontext.quote(text.tag)
        made.kind = text.kind
    return made
