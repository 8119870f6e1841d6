"""What an honest client of each API makes of an answer's events."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from support.chunks import DONE, Collected, collect
from support.client import Answer

# What this client shows as text and as reasoning, by type of a Responses event.
_TEXT = "response.output_text.delta"
_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_TERMINAL = ("response.completed", "response.incomplete")


@dataclass
class Meaning:
    """events: names or types in order of the frames, pings left out. collected: of a stream of chunks."""

    content: str = ""
    reasoning: str = ""
    finish: str | None = None
    done: int = 0
    error: Any = None
    usage: Any = None
    calls: list[dict[str, str]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)
    collected: Collected = field(default_factory=Collected)


def understand(api: str, answer: Answer) -> Meaning:
    """Of a stream; an answer that is none has no events."""
    if answer.header("content-type") != "text/event-stream; charset=utf-8":
        return Meaning()
    events = answer.events
    objects = [json.loads(event.data) for event in events if event.data != DONE]
    if api == "responses":
        return _responses(objects, sum(event.data == DONE for event in events))
    if api == "messages":
        return _messages(objects)
    got = collect(event.data for event in events)
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for _, call in sorted(got.first.calls.items())]
    return Meaning(
        got.first.content,
        got.first.reasoning,
        got.first.finish,
        got.done,
        got.errors[0] if got.errors else None,
        got.usages[-1] if got.usages else None,
        calls,
        [],
        objects,
        got,
    )


def _responses(objects: list[Any], done: int) -> Meaning:
    got = Meaning(done=done, objects=objects, events=[each["type"] for each in objects if each["type"] != "keepalive"])
    for each in objects:
        kind = each["type"]
        if kind == _TEXT:
            got.content += each["delta"]
        elif kind in _REASONING:
            got.reasoning += each["delta"]
        elif kind in _TERMINAL:
            got.finish = kind.removeprefix("response.")
            got.usage = each["response"].get("usage")
        elif kind in ("error", "response.failed"):
            got.error = each
    return got


def _messages(objects: list[Any]) -> Meaning:
    got = Meaning(objects=objects, events=[each["type"] for each in objects if each["type"] != "ping"])
    blocks: dict[int, dict[str, str]] = {}
    for each in objects:
        kind, delta = each["type"], each.get("delta") or {}
        if kind == "content_block_start" and each["content_block"]["type"] == "tool_use":
            block = each["content_block"]
            blocks[each["index"]] = {"id": block["id"], "name": block["name"], "arguments": ""}
        elif kind == "content_block_delta":
            got.content += delta.get("text", "")
            got.reasoning += delta.get("thinking", "")
            if "partial_json" in delta:
                blocks[each["index"]]["arguments"] += delta["partial_json"]
        elif kind == "message_delta":
            got.finish = delta.get("stop_reason") or got.finish
        elif kind == "error":
            got.error = each["error"]
    got.calls = [blocks[index] for index in sorted(blocks)]
    return got
