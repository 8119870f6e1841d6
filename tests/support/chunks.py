"""Chat completion chunks as OpenAI's servers write them, and what an honest client makes of a stream of chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

ENVELOPE: Final = {"id": "chatcmpl-t1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m-test"}
DONE: Final = "[DONE]"
USAGE: Final = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_LEFT_OUT: Final = object()


def chunk(content: Any = _LEFT_OUT, *, index: int = 0, finish: str | None = None, top: Any = None, choice: Any = None, **delta: Any) -> str:
    """One chunk. `top` and `choice`: more members of these. Content None is null."""
    inner = delta if content is _LEFT_OUT else {"content": content, **delta}
    return compact({**ENVELOPE, "choices": [{"index": index, "delta": inner, **(choice or {}), "finish_reason": finish}], **(top or {})})


ROLE: Final = chunk("", role="assistant")
STOP: Final = chunk(finish="stop")


def call(
    index: int | None = 0, id: str | None = None, name: str | None = None, arguments: str | None = None, **more: Any
) -> dict[str, Any]:
    """A tool call's delta."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    out: dict[str, Any] = {} if index is None else {"index": index}
    if id is not None:
        out |= {"id": id, "type": "function"}
    return {**out, "function": function, **more}


def words(*texts: str) -> list[str]:
    """A whole stream of these deltas."""
    return [ROLE, *map(chunk, texts), STOP, DONE]


@dataclass
class Call:
    id: str = ""
    name: str = ""
    arguments: str = ""
    id_frames: int = 0


@dataclass
class Choice:
    texts: dict[str, str] = field(default_factory=dict)  # by field name
    parts: list[Any] = field(default_factory=list)  # of content that is a list
    finish: str | None = None
    finish_frames: int = 0
    role_frames: int = 0
    calls: dict[int, Call] = field(default_factory=dict)
    logprobs: list[Any] = field(default_factory=list)

    @property
    def content(self) -> str:
        return self.texts.get("content", "") + self.texts.get("text", "")

    @property
    def reasoning(self) -> str:
        return self.texts.get("reasoning_content", "") + self.texts.get("reasoning", "")


@dataclass
class Collected:
    """order: (choice, field) of each text, tool fragment or finish, runs of the same left out."""

    choices: dict[int, Choice] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    usages: list[Any] = field(default_factory=list)
    errors: list[Any] = field(default_factory=list)
    done: int = 0
    after_done: int = 0
    order: list[tuple[int, str]] = field(default_factory=list)

    @property
    def first(self) -> Choice:
        return self.choices.get(0, Choice())


def collect(datas: Iterable[str]) -> Collected:
    """As the SDKs do it: deltas are added up, whatever stands in them."""
    got = Collected()
    for data in datas:
        if data == DONE:
            got.done += 1
            continue
        got.after_done += got.done
        top = json.loads(data)
        if top.get("error") is not None:
            got.errors.append(top["error"])
        if top.get("usage") is not None:
            got.usages.append(top["usage"])
        if "id" in top:
            got.ids.add(top["id"])
        for choice in top.get("choices") or ():
            _add(got, choice)
    return got


def _add(got: Collected, choice: Any) -> None:
    index = choice["index"]
    into = got.choices.setdefault(index, Choice())
    delta = choice.get("delta", choice)  # legacy completions have none

    def happened(what: str) -> None:
        if not got.order or got.order[-1] != (index, what):
            got.order.append((index, what))

    into.role_frames += "role" in delta
    for name in ("reasoning_content", "reasoning", "content", "refusal", "text"):
        value = delta.get(name)
        if isinstance(value, str) and value:
            before = into.texts.get(name, "")
            into.texts[name] = whole_pairs(before + value) if "\ud800" <= before[-1:] <= "\udbff" else before + value
            happened(name)
        elif isinstance(value, list):
            into.parts += value
            happened(name)
    for part in delta.get("tool_calls") or ():
        made = into.calls.setdefault(part["index"], Call())
        made.id += part.get("id") or ""
        made.id_frames += "id" in part
        function = part.get("function") or {}
        made.name += function.get("name") or ""
        made.arguments += function.get("arguments") or ""
        happened(f"call {part['index']}")
    logprobs = choice.get("logprobs")
    if logprobs:
        into.logprobs += logprobs.get("content") or logprobs.get("tokens") or []
    if choice.get("finish_reason") is not None:
        into.finish = choice["finish_reason"]
        into.finish_frames += 1
        happened("finish")


def whole_pairs(text: str) -> str:
    """JavaScript's strings join the halves of a surrogate pair by themselves; Python's do not."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
