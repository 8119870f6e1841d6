"""Answers that came in the other form than asked for: a whole chat completion where a stream was wanted, and the reverse.

Some servers ignore `stream`. Passing their answer on breaks SDKs silently (an empty stream, a JSON error), so it is converted: every
field of the one form that the other has is kept, in its own bytes where that is possible.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.dialects.adding import Choice
from gateway.dialects.base import Dialect
from gateway.dialects.reported import MALFORMED, reported, reported_in, told
from gateway.errors import Failure
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event


def as_stream(media_type: bytes, body: bytes) -> bytes | Failure:
    """A whole completion as the events that a stream would have brought. A Failure where the body is none."""
    try:
        top = jsontext.members(jsontext.strict(body.strip().removesuffix(b"data: [DONE]")))
        failure = reported(top)
        return _events(top) if failure is None else failure
    except ValueError:
        return Dialect.as_stream(media_type, body)


def _events(top: Members) -> bytes:
    """ValueError where it is no completion."""
    found = jsontext.elements(top.get("choices", b""))
    if not found:
        raise ValueError("no choices")
    envelope = {key: raw for key, raw in top.items() if key not in ("choices", "usage")}
    chat = top.get("object") != b'"text_completion"'
    if chat:
        envelope["object"] = b'"chat.completion.chunk"'
    out = []
    for raw in found:
        choice = jsontext.members(raw)
        if chat:
            message = jsontext.members(choice.pop("message", b"{}"))
            if message.get("tool_calls", b"").startswith(b"["):
                message["tool_calls"] = _numbered(message["tool_calls"])
            choice["delta"] = jsontext.join(message)
        finish = choice.get("finish_reason", b"null")
        choice["finish_reason"] = b"null"
        out.append(_event(envelope, choice))
        closing: Members = {"index": choice.get("index", b"0"), "finish_reason": finish}
        out.append(_event(envelope, {**closing, "delta": b"{}"} if chat else {**closing, "text": b'""'}))
    if top.get("usage", b"null") != b"null":
        out.append(b"data: " + jsontext.join({**envelope, "choices": b"[]", "usage": top["usage"]}) + b"\n\n")
    return b"".join([*out, b"data: [DONE]\n\n"])


def as_completion(events: Iterable[Event]) -> bytes | Failure:
    """The events of a stream as the one completion that they add up to."""
    try:
        return _added_up(events)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return MALFORMED


def _added_up(events: Iterable[Event]) -> bytes | Failure:
    """ValueError where an event is not as it should be."""
    top: Members = {}
    choices: dict[int, Choice] = {}
    whole = False
    for event in events:
        data = event.data.strip()
        if data == b"[DONE]":
            whole = True
            continue
        try:
            chunk = jsontext.members(jsontext.strict(data))
        except ValueError:
            failure = reported_in(data) or (told(data) if event.name == b"error" else None)
            if failure is None and data.startswith(b"{"):  # it was to be a part of the answer
                failure = MALFORMED
            if failure is not None:
                return failure
            continue
        failure = reported(chunk)
        if failure is not None:
            return failure
        listed = chunk.pop("choices", b"")
        found = [jsontext.members(raw) for raw in jsontext.elements(listed) if raw.startswith(b"{")] if listed.startswith(b"[") else []
        if any(choice.get("message", b"").startswith(b"{") for choice in found):  # it was a whole completion after all, in an event
            return jsontext.join({**chunk, "choices": listed})
        for key, raw in chunk.items():
            if raw != b"null":
                top[key] = _grown(top.get(key, b""), raw)
        for position, choice in enumerate(found):
            index = jsontext.value(choice.get("index", b"null"))
            index = index if isinstance(index, int) else position
            if index not in choices:
                choices[index] = Choice(index)
            choices[index].add(choice)
    whole = whole or (bool(choices) and all(choice.finished for choice in choices.values()))
    if not choices or not whole:
        return Dialect.gathered(())
    if top.get("object") == b'"chat.completion.chunk"':
        top["object"] = b'"chat.completion"'
    top["choices"] = jsontext.array([choices[index].render() for index in sorted(choices)])
    return jsontext.join(top)


def _grown(before: bytes, raw: bytes) -> bytes:
    """A member beside the choices. A list (sources, search results) goes on, unless it repeats what was there, as some servers do."""
    if not (before.startswith(b"[") and raw.startswith(b"[")):
        return raw
    old, new = jsontext.elements(before), jsontext.elements(raw)
    return raw if new[: len(old)] == old else jsontext.array(old + new)


def _event(envelope: Members, choice: Members) -> bytes:
    return b"data: " + jsontext.join({**envelope, "choices": b"[" + jsontext.join(choice) + b"]"}) + b"\n\n"


def _numbered(calls: bytes) -> bytes:
    """Calls of a message have no index; in a stream they must."""
    listed = [jsontext.members(call) for call in jsontext.elements(calls)]
    return jsontext.array([jsontext.join({"index": b"%d" % at, **call}) for at, call in enumerate(listed)])
