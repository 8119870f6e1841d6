"""Anthropic's Messages: blocks with their deltas, thinking sealed by a signature, pings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.simulator import tools
from gateway.simulator.ask import Ask, ask, invalid, last_of, latest
from gateway.simulator.encode import Json, new_id, seal, sse
from gateway.simulator.play import Delta, Finish, Renderer
from gateway.simulator.scenarios import Scenario
from gateway.simulator.text import Part

# part -> block's type, delta's type, the field that holds the text in both
_BLOCKS: Final[Mapping[Part, tuple[str, str, str]]] = {
    "reasoning": ("thinking", "thinking_delta", "thinking"),
    "content": ("text", "text_delta", "text"),
    "refusal": ("text", "text_delta", "text"),
    "tool": ("tool_use", "input_json_delta", "partial_json"),
}
_STOPS: Final[Mapping[Finish, str]] = {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use", "refusal": "refusal"}


def read(body: Json, headers: Mapping[str, str]) -> Ask:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid("messages: Field required", "messages")
    content = latest(messages).get("content")
    blocks = content if isinstance(content, list) else []
    listed = body.get("tools")
    choice = body.get("tool_choice")
    return ask(
        body,
        headers,
        last_user=last_of(messages),
        answers_tool=any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks),
        tool=tools.choose(
            [
                tools.Tool(t["name"], t.get("input_schema") or {})
                for t in (listed if isinstance(listed, list) else [])
                if isinstance(t, dict) and t.get("name")
            ],
            choice.get("name") if isinstance(choice, dict) else None,
        ),
    )


class Messages(Renderer):
    def __init__(self, ask: Ask, scenario: Scenario) -> None:
        super().__init__(ask, scenario)
        self.blocks: list[Json] = []  # whole ones
        self.block: Json = {}  # the open one
        self.part: Part | None = None  # what it is made of
        self.words: list[str] = []
        self.message: Json = {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": ask.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**self._usage(), "output_tokens": 1, "service_tier": "standard"},
        }

    def _event(self, kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, **fields}, kind)

    def _delta(self, kind: str, **fields: Any) -> bytes:
        return self._event("content_block_delta", index=len(self.blocks), delta={"type": kind, **fields})

    def opening(self) -> bytes:
        return self._event("message_start", message=self.message) + self._event("ping")

    def delta(self, delta: Delta) -> bytes:
        self.count(delta)
        out = b"" if delta.part == self.part else self._close_block() + self._open_block(delta.part)
        self.words += delta.tokens
        _, kind, field = _BLOCKS[delta.part]
        return out + self._delta(kind, **{field: delta.text})

    def _open_block(self, part: Part) -> bytes:
        self.part, self.words = part, []
        kind = _BLOCKS[part][0]
        if part == "tool":
            self.block = {"type": kind, "id": new_id("toolu_"), "name": self.ask.tool.name, "input": {}}
        elif part == "reasoning":
            self.block = {"type": kind, "thinking": "", "signature": ""}
        else:
            self.block = {"type": kind, "text": ""}
        out = self._event("content_block_start", index=len(self.blocks), content_block=self.block)
        return out + self._delta("input_json_delta", partial_json="") if part == "tool" else out

    def _close_block(self) -> bytes:
        if self.part is None:
            return b""
        words, out = "".join(self.words), b""
        if self.part == "reasoning":
            signature = seal(words)
            self.block = {"type": "thinking", "thinking": words, "signature": signature}
            out = self._delta("signature_delta", signature=signature)
        elif self.part == "tool":
            self.block = {**self.block, "input": msgspec.json.decode(words)}
        else:
            self.block = {"type": "text", "text": words}
        out += self._event("content_block_stop", index=len(self.blocks))
        self.blocks.append(self.block)
        self.part = None
        return out

    def closing(self, finish: Finish) -> bytes:
        out = self._close_block()
        ending = {"stop_reason": _STOPS[finish], "stop_sequence": None}
        usage = self._usage()
        self.message = {**self.message, **ending, "content": self.blocks, "usage": {**usage, "service_tier": "standard"}}
        out += self._event("message_delta", delta=ending, usage=usage)
        return out + self._event("message_stop")

    def failure(self) -> bytes:
        return self._event("error", error={"type": "overloaded_error", "message": "Overloaded"})

    def _usage(self) -> Json:
        return {
            "input_tokens": self.ask.prompt_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": self.tokens,
        }

    def answer(self) -> Json:
        return self.message
