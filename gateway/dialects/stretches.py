"""A chunk that is too heavy for one frame, as several that say the same: which stretch of which text carries what of the rest.

What is said once goes with the first stretch (a role, a call's id and name) or with the last (finish reason, usage, the unknown);
log-probabilities go with their tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.dialects.chunks import Chunk, belongs_to_each, function_of, text_of
from gateway.dialects.cutting import Part
from gateway.piece import Kind
from gateway.wire import jsontext
from gateway.wire.jsontext import Members

_NULL: Final = b"null"


def parts_of(chunk: Chunk) -> Sequence[Part]:
    """Its texts, each with a way to render any stretch of it; empty where it must stay whole."""
    borders = chunk.borders()
    if borders is None:
        return []
    parts: list[Part] = []
    for name, kind in chunk.texts:
        raw = chunk.delta.get(name)
        if raw is not None and raw[:1] in b"[{":
            return []
        text = text_of(raw)
        if text:
            own = kind if chunk.kind is None else chunk.kind
            ends = borders.get(name)
            weight = None if ends is None else float(len(ends))
            parts.append(Part(own, text, _text_render(chunk, name, text, ends, bool(borders)), weight, ends))
    for call in chunk.calls():
        function = function_of(call)
        text = text_of(function.get("arguments"))
        parts.append(Part(Kind.TOOL, text, _call_render(chunk, call, function, text, bool(borders))))
    return parts


def _text_render(chunk: Chunk, name: str, text: str, borders: list[int] | None, scored: bool) -> Any:
    def render(start: int, end: int, first: bool, last: bool) -> bytes:
        if borders is None:
            logprobs = None if last and not scored else _NULL
        else:
            low = 0 if start == 0 else borders.index(start) + 1
            high = borders.index(end) + 1 if end != borders[-1] else len(borders)
            logprobs = _logprobs_of(chunk, name, low, high)
        return _stretch(chunk, name, jsontext.quote(text[start:end]), first, last, logprobs)

    return render


def _call_render(chunk: Chunk, call: Members, function: Members, text: str, scored: bool) -> Any:
    def render(start: int, end: int, first: bool, last: bool) -> bytes:
        arguments = jsontext.quote(text[start:end])
        if not text:
            piece = call
        elif start == 0:
            piece = {**call, "function": jsontext.join({**function, "arguments": arguments})}
        else:
            piece = {"index": call.get("index", b"0"), "function": jsontext.join({"arguments": arguments})}
        return _stretch(chunk, "tool_calls", jsontext.array([jsontext.join(piece)]), first, last, None if last and not scored else _NULL)

    return render


def _stretch(chunk: Chunk, name: str, raw: bytes, first: bool, last: bool, logprobs: bytes | None) -> bytes:
    """This chunk with one stretch of one text. What is said once goes with the first (role) or the last stretch (the rest)."""
    texts = {text for text, _ in chunk.texts} | ({"tool_calls"} if chunk.has_delta else set())
    plain = ("index", "delta", "finish_reason", "logprobs")
    delta: Members = {}
    for key, value in chunk.delta.items():
        if key == name:
            delta[key] = raw
        elif key in texts or (not chunk.has_delta and key in plain):
            continue
        elif key == "reasoning_tag":  # only the first stretch opens
            delta[key] = value if first else b'"think_chunk"'
        elif first if key == "role" else last:
            delta[key] = value
    choice: Members = {}
    for key, value in chunk.choice.items():
        if key == "delta":
            choice[key] = jsontext.join(delta)
        elif key == "index":
            choice[key] = value
        elif key == "finish_reason":
            choice[key] = value if last else _NULL
        elif key == "logprobs":
            choice[key] = value if logprobs is None or value == _NULL else logprobs
        elif not chunk.has_delta:
            if key in delta:
                choice[key] = delta[key]
        elif last:
            choice[key] = value
    top: Members = {}
    for key, value in chunk.top.items():
        if key == "choices":
            top[key] = b"[" + jsontext.join(choice) + b"]"
        elif last or belongs_to_each(key, value):
            top[key] = value
        elif key == "usage":
            top[key] = _NULL
    return b"data: " + jsontext.join(top) + b"\n\n"


def _logprobs_of(chunk: Chunk, name: str, low: int, high: int) -> bytes:
    """The log-probabilities of these tokens of a text."""
    lists = chunk.logprobs()
    for key, raw in lists.items():
        if raw.startswith(b"["):
            mine = not chunk.has_delta or key == name
            lists[key] = jsontext.array(jsontext.elements(raw)[low:high]) if mine else _NULL
    return jsontext.join(lists)
