"""Answers that came in the other form than asked for: a whole chat completion where a stream was wanted, and the reverse.

Some servers ignore `stream`. Passing their answer on breaks SDKs silently (an empty stream, a JSON error), so it is converted: every
field of the one form that the other has is kept, in its own bytes where that is possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway.dialects.base import Dialect
from gateway.dialects.reported import reported
from gateway.errors import Failure
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event

_STRINGS = ("content", "reasoning_content", "reasoning", "refusal")


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
    top: Members = {}
    choices: dict[int, dict[str, Any]] = {}
    whole = False
    for event in events:
        data = event.data.strip()
        if data == b"[DONE]":
            whole = True
            continue
        try:
            chunk = jsontext.members(jsontext.strict(data))
        except ValueError:
            if data.startswith(b"{"):  # it was to be a part of the answer
                return Dialect.gathered(())
            continue
        failure = reported(chunk)
        if failure is not None:
            return failure
        listed = chunk.get("choices", b"")
        found = [jsontext.members(raw) for raw in jsontext.elements(listed) if raw.startswith(b"{")] if listed.startswith(b"[") else []
        if any("message" in choice for choice in found):  # it was a whole completion after all, in an event
            return jsontext.join(chunk)
        top.update({key: raw for key, raw in chunk.items() if key != "choices" and raw != b"null"})
        for position, choice in enumerate(found):
            _add(choices, choice, position)
    whole = whole or (bool(choices) and all(choice.get("finish_reason") for choice in choices.values()))
    if not choices or not whole:
        return Dialect.gathered(())
    if top.get("object") == b'"chat.completion.chunk"':
        top["object"] = b'"chat.completion"'
    top["choices"] = jsontext.dump([choices[index] for index in sorted(choices)])
    return jsontext.join(top)


def _event(envelope: Members, choice: Members) -> bytes:
    return b"data: " + jsontext.join({**envelope, "choices": b"[" + jsontext.join(choice) + b"]"}) + b"\n\n"


def _numbered(calls: bytes) -> bytes:
    """Calls of a message have no index; in a stream they must."""
    listed = [jsontext.members(call) for call in jsontext.elements(calls)]
    return jsontext.array([jsontext.join({"index": b"%d" % at, **call}) for at, call in enumerate(listed)])


def _add(choices: dict[int, dict[str, Any]], members: Members, position: int) -> None:
    choice = {key: jsontext.value(raw) for key, raw in members.items()}
    index = choice.get("index") if isinstance(choice.get("index"), int) else position
    into = choices.setdefault(int(index or 0), {"index": index, "finish_reason": None})
    delta = choice.pop("delta", None)
    for key, value in choice.items():
        if key == "text":
            into["text"] = into.get("text", "") + (value or "")
        elif key == "logprobs" and isinstance(value, dict) and isinstance(into.get("logprobs"), dict):
            for name, entries in value.items():
                if isinstance(entries, list):
                    into["logprobs"][name] = (into["logprobs"].get(name) or []) + entries
        elif value is not None:
            into[key] = value
    if not isinstance(delta, dict):
        return
    message = into.setdefault("message", {"role": "assistant", "content": None})
    for key, value in delta.items():
        if key in _STRINGS:
            if isinstance(value, str):
                message[key] = (message.get(key) or "") + value
        elif key == "tool_calls":
            for at, call in enumerate(value or ()):
                _add_call(message.setdefault("tool_calls", []), call, at)
        elif isinstance(value, list) and isinstance(message.get(key), list):
            message[key] += value
        elif value not in (None, ""):
            message[key] = value


def _add_call(calls: list[dict[str, Any]], part: dict[str, Any], position: int) -> None:
    index = part.get("index") if isinstance(part.get("index"), int) else position
    while len(calls) <= int(index or 0) < 1024:
        calls.append({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
    call = calls[int(index or 0)]
    call["id"] = call["id"] or part.get("id")
    function = part.get("function") or {}
    call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
    arguments = function.get("arguments") or ""
    call["function"]["arguments"] += arguments if isinstance(arguments, str) else jsontext.dump(arguments).decode()
