"""Chat completions: chunks as OpenAI and OpenAI-compatible reasoning servers send them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from gateway.simulator import tools
from gateway.simulator.ask import Ask, ask, invalid, last_of, latest
from gateway.simulator.encode import Json, logprobs, new_id, padding, sse
from gateway.simulator.play import Delta, Finish, Renderer
from gateway.simulator.scenarios import Scenario
from gateway.simulator.text import Part

FINISH: Mapping[Finish, str] = {"stop": "stop", "length": "length", "tool": "tool_calls", "refusal": "stop"}


def read(body: Json, headers: Mapping[str, str]) -> Ask:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid("Missing required parameter: 'messages'.", "messages")
    number = body.get("n")
    return ask(
        body,
        headers,
        last_user=last_of(messages),
        answers_tool=latest(messages).get("role") in ("tool", "function"),
        tool=tools.choose(offered(body.get("tools")), wanted(body.get("tool_choice"))),
        choices=number if isinstance(number, int) else 1,
    )


def offered(listed: Any) -> list[tools.Tool]:
    functions = [t.get("function") for t in listed or () if isinstance(t, dict)] if isinstance(listed, list) else []
    return [tools.Tool(f["name"], f.get("parameters") or {}) for f in functions if isinstance(f, dict) and f.get("name")]


def wanted(choice: Any) -> str | None:
    function = choice.get("function") if isinstance(choice, dict) else None
    return function.get("name") if isinstance(function, dict) else None


class Chat(Renderer):
    def __init__(self, ask: Ask, scenario: Scenario) -> None:
        super().__init__(ask, scenario)
        options = ask.body.get("stream_options")
        options = options if isinstance(options, dict) else {}
        self.include_usage = bool(options.get("include_usage"))
        self.obfuscate = options.get("include_obfuscation", True) is not False
        self.logprobs = bool(ask.body.get("logprobs"))
        self.head: Json = {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": ask.model,
            "service_tier": "default",
            "system_fingerprint": "fp_simulated",
        }
        self.calls: dict[int, str] = {}  # choice -> id of its tool call
        self.said: dict[tuple[int, Part], list[str]] = {}

    def _chunk(self, choice: int, delta: Json, finish: str | None = None, marks: Json | None = None, words: str = "") -> bytes:
        chunk = {**self.head, "choices": [{"index": choice, "delta": delta, "logprobs": marks, "finish_reason": finish}]}
        if self.include_usage:
            chunk["usage"] = None
        if self.obfuscate:
            chunk["obfuscation"] = padding(words)
        return sse(chunk)

    def opening(self) -> bytes:
        first = {"role": "assistant", "content": "", "refusal": None}
        return b"".join([self._chunk(choice, first) for choice in range(self.ask.choices)])

    def delta(self, delta: Delta) -> bytes:
        self.count(delta)
        words, choice = delta.text, delta.choice
        self.said.setdefault((choice, delta.part), []).extend(delta.tokens)
        marks: Json | None = None
        if self.logprobs and delta.part in ("content", "refusal"):
            marks = {"content": None, "refusal": None, delta.part: logprobs(delta.tokens)}
        if delta.part == "tool":
            call: Json = {"index": 0, "function": {"arguments": words}}
            return self._call(choice) + self._chunk(choice, {"tool_calls": [call]}, words=words)
        field = self.scenario.reasoning_field if delta.part == "reasoning" else delta.part
        return self._chunk(choice, {field: words}, marks=marks, words=words)

    def _call(self, choice: int) -> bytes:
        """Id and name come first, once, with empty arguments."""
        if choice in self.calls:
            return b""
        self.calls[choice] = new_id("call_")
        function = {"name": self.ask.tool.name, "arguments": ""}
        call = {"index": 0, "id": self.calls[choice], "type": "function", "function": function}
        return self._chunk(choice, {"tool_calls": [call]})

    def closing(self, finish: Finish) -> bytes:
        self.finish = FINISH[finish]
        out = [self._chunk(choice, {}, self.finish) for choice in range(self.ask.choices)]
        if self.include_usage:
            last = {**self.head, "choices": [], "usage": self.usage()}
            out.append(sse({**last, "obfuscation": padding("")} if self.obfuscate else last))
        return b"".join(out) + b"data: [DONE]\n\n"

    def failure(self) -> bytes:
        return sse({"error": in_stream_error()})

    def usage(self) -> Json:
        return usage(self.ask.prompt_tokens, self.tokens, self.counts["reasoning"])

    def answer(self) -> Json:
        head = {**self.head, "object": "chat.completion"}
        choices = [self._choice(choice) for choice in range(self.ask.choices)]
        return {**head, "choices": choices, "usage": self.usage()}

    def _choice(self, choice: int) -> Json:
        def joined(part: Part) -> str | None:
            tokens = self.said.get((choice, part))
            return "".join(tokens) if tokens else None

        content, refusal = joined("content"), joined("refusal")
        message: Json = {"role": "assistant", "content": content, "refusal": refusal, "annotations": []}
        if (reasoning := joined("reasoning")) is not None:
            message[self.scenario.reasoning_field] = reasoning
        if choice in self.calls:
            function = {"name": self.ask.tool.name, "arguments": joined("tool")}
            message["tool_calls"] = [{"id": self.calls[choice], "type": "function", "function": function}]
        elif content is None and refusal is None:
            message["content"] = ""
        marks = None
        if self.logprobs:
            parts: tuple[Part, ...] = ("content", "refusal")
            marks = {part: logprobs(self.said[choice, part]) if (choice, part) in self.said else None for part in parts}
        return {"index": choice, "message": message, "logprobs": marks, "finish_reason": self.finish}


def usage(prompt: int, completion: int, reasoning: int) -> Json:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def in_stream_error() -> Json:
    return {
        "message": "The server had an error processing your request. Sorry about that!",
        "type": "server_error",
        "param": None,
        "code": None,
    }
