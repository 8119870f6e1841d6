"""What a client was given, added up: the part of it that must be the same with and without the gateway.

Left out is what differs between any two calls (ids, times) and how the text was cut into deltas, which is the gateway's work. That an
id or a role came once, and that ids refer to each other as they should, is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Outcome:
    """answer: all that came, comparable. text: what was said in it, in order. error: what the client raised, described; None where it
    ended like a success. deltas: in how many pieces it came."""

    answer: Any
    text: str
    error: Json | None = None
    deltas: int = field(default=0, compare=False)


class Taken(list[Json]):
    """What has come so far, as dictionaries; it stays when the stream breaks."""

    def take(self, event: Json) -> None:
        self.append(event)


# Chat completion chunks

_TEXTS = ("reasoning_content", "reasoning", "content", "refusal")


@dataclass
class _Choice:
    """said: (field, text), a new entry where the field changes. ids, names: how many came with each call. tokens: of log-probabilities."""

    said: list[list[str]] = field(default_factory=list)
    calls: Json = field(default_factory=dict)
    tokens: list[tuple[str, float]] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    finishes: list[str] = field(default_factory=list)

    def add(self, delta: Json) -> None:
        if delta.get("role"):
            self.roles.append(delta["role"])
        for name in _TEXTS:
            self._say(name, delta.get(name) or "")
        for given in delta.get("tool_calls") or ():
            call = self.calls.setdefault(given["index"], {"ids": 0, "names": []})
            function = given.get("function") or {}
            call["ids"] += bool(given.get("id"))
            call["names"] += [function["name"]] if function.get("name") else []
            self._say(f"call {given['index']}", function.get("arguments") or "")

    def _say(self, name: str, text: str) -> None:
        if text:
            if not self.said or self.said[-1][0] != name:
                self.said.append([name, ""])
            self.said[-1][1] += text


def chat_outcome(chunks: Iterable[Json], error: Json | None = None) -> Outcome:
    """Of chunks as dictionaries."""
    choices: dict[int, _Choice] = {}
    usage, models, deltas = [], set(), 0
    for chunk in chunks:
        models.add(chunk["model"])
        if chunk.get("usage"):
            usage.append(chunk["usage"])
        for given in chunk["choices"]:
            choice = choices.setdefault(given["index"], _Choice())
            choice.add(given["delta"])
            choice.tokens += [(entry["token"], entry["logprob"]) for entry in (given.get("logprobs") or {}).get("content") or ()]
            choice.finishes += [given["finish_reason"]] if given.get("finish_reason") else []
            deltas += 1
    text = "".join(said for choice in choices.values() for _, said in choice.said)
    return Outcome((choices, usage, models), text, error, deltas)


# Events with a type: Responses and Messages

_IDS = ("id", "item_id", "call_id")
_NEW_EACH_TIME = ("created_at", "completed_at", "obfuscation")
_DELTA_TEXTS = ("text", "thinking", "partial_json")


def typed_outcome(events: Iterable[Json], error: Json | None = None) -> Outcome:
    """Deltas of one place that follow each other are one. sequence_number is checked and left out, signs of life are left out."""
    ids: dict[str, str] = {}
    answer: list[Json] = []
    text, deltas, number = "", 0, 0
    for event in events:
        if "sequence_number" in event:
            assert event["sequence_number"] == number, (number, event["type"])
            number += 1
        if event["type"] in ("ping", "keepalive"):
            continue
        event = _lasting(event, ids)
        event.pop("sequence_number", None)
        if "delta" in event and event["type"] != "message_delta":
            text, deltas = text + _delta_text(event["delta"]), deltas + 1
            if answer and _join(answer[-1], event):
                continue
        answer.append(event)
    return Outcome(answer, text, error, deltas)


def _lasting(value: Any, ids: dict[str, str]) -> Any:
    """Without what is new each time; ids become the number of their first appearance."""
    if isinstance(value, list):
        return [_lasting(item, ids) for item in value]
    if not isinstance(value, dict):
        return value
    out: Json = {}
    for key, item in value.items():
        if key in _IDS and isinstance(item, str):
            out[key] = ids.setdefault(item, f"id {len(ids)}")
        elif key == "encrypted_content" and value.get("summary") == []:
            out[key] = bool(item)  # a first one, of nothing: the embedded upstream makes it from the id
        elif key not in _NEW_EACH_TIME:
            out[key] = _lasting(item, ids)
    return out


def _delta_text(delta: Any) -> str:
    return delta if isinstance(delta, str) else "".join(delta.get(name, "") for name in _DELTA_TEXTS)


def _join(last: Json, event: Json) -> bool:
    """Adds a delta to the last one, if that has the same place."""
    if {**_place(last)} != _place(event):
        return False
    if isinstance(event["delta"], str):
        last["delta"] += event["delta"]
        if "logprobs" in event:
            last["logprobs"] += event["logprobs"]
        return True
    for name in _DELTA_TEXTS:
        if name in event["delta"]:
            last["delta"][name] += event["delta"][name]
            return True
    return False


def _place(event: Json) -> Json:
    delta = event.get("delta")
    kind = delta.get("type") if isinstance(delta, dict) else None
    return {"kind": kind, **{key: value for key, value in event.items() if key not in ("delta", "logprobs")}}


def message(whole: Any) -> Any:
    """A whole answer without what is new each time."""
    return _lasting(whole, {})
