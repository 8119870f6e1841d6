"""The Responses API: numbered events; items, their parts and deltas, each opened before and closed after."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from gateway.simulator import tools
from gateway.simulator.ask import Ask, ask, invalid, last_of, latest
from gateway.simulator.encode import Json, logprobs, new_id, padding, seal, sse
from gateway.simulator.play import Delta, Finish, Renderer
from gateway.simulator.scenarios import Scenario
from gateway.simulator.text import Part

# Fields of the request that the response object repeats, with what stands there if the request had none.
_ECHOED: Final[Json] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}


def read(body: Json, headers: Mapping[str, str]) -> Ask:
    given = body.get("input")
    if not isinstance(given, str | list):
        raise invalid("Missing required parameter: 'input'.", "input")
    listed = body.get("tools")
    choice = body.get("tool_choice")
    return ask(
        body,
        headers,
        last_user=given if isinstance(given, str) else last_of(given),
        answers_tool=str(latest(given).get("type")).endswith("call_output"),
        tool=tools.choose(
            [
                tools.Tool(t["name"], t.get("parameters") or {})
                for t in (listed if isinstance(listed, list) else [])
                if isinstance(t, dict) and t.get("type") == "function" and t.get("name")
            ],
            choice.get("name") if isinstance(choice, dict) else None,
        ),
    )


class Responses(Renderer):
    def __init__(self, ask: Ask, scenario: Scenario) -> None:
        super().__init__(ask, scenario)
        include = ask.body.get("include")
        include = include if isinstance(include, list) else []
        self.encrypted = "reasoning.encrypted_content" in include
        self.logprobs = "message.output_text.logprobs" in include
        options = ask.body.get("stream_options")
        self.obfuscate = not (isinstance(options, dict) and options.get("include_obfuscation") is False)
        self.number = -1  # of the last event
        self.items: list[Json] = []  # whole ones
        self.item: Json = {}  # the open one
        self.part: Part | None = None  # what it is made of
        self.words: list[str] = []  # of its open part
        self.response: Json = {
            "id": new_id("resp_"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "background": False,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "model": ask.model,
            "output": [],
            "service_tier": "default",
            "usage": None,
            **{key: ask.body.get(key, default) for key, default in _ECHOED.items()},
        }

    def _event(self, kind: str, **fields: Any) -> bytes:
        self.number += 1
        return sse({"type": kind, "sequence_number": self.number, **fields}, kind)

    @property
    def _where(self) -> Json:
        where: Json = {"item_id": self.item["id"], "output_index": len(self.items)}
        if self.part == "reasoning":
            where["summary_index"] = len(self.item["summary"])
        elif self.part != "tool":
            where["content_index"] = 0
        return where

    def opening(self) -> bytes:
        return b"".join([self._event(f"response.{kind}", response=self.response) for kind in ("created", "in_progress")])

    def delta(self, delta: Delta) -> bytes:
        self.count(delta)
        out = b"" if delta.part == self.part else self._close_item("completed") + self._open_item(delta.part)
        if delta.part == "reasoning" and not self.words:
            out += self._event("response.reasoning_summary_part.added", **self._where, part=_summary(""))
        words = delta.text
        self.words += delta.tokens
        extra: Json = {"obfuscation": padding(words)} if self.obfuscate else {}
        if delta.part == "content":
            extra = {"logprobs": logprobs(delta.tokens) if self.logprobs else [], **extra}
        out += self._event(f"response.{_DELTAS[delta.part]}.delta", **self._where, delta=words, **extra)
        if delta.part == "reasoning" and self.words[-1] == "\n\n" and self.words[-2:-1] not in ([], ["*"]):
            out += self._close_summary()  # a paragraph with its heading is a part, as the hosted models do
        return out

    def _open_item(self, part: Part) -> bytes:
        self.part, self.words = part, []
        if part == "reasoning":
            self.item = {"id": new_id("rs_"), "type": "reasoning", "summary": []}
            if self.encrypted:
                self.item["encrypted_content"] = seal(self.item["id"])
        elif part == "tool":
            self.item = {"id": new_id("fc_"), "type": "function_call", "status": "in_progress", "arguments": ""}
            self.item |= {"call_id": new_id("call_"), "name": self.ask.tool.name}
        else:
            self.item = {"id": new_id("msg_"), "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
        out = self._event("response.output_item.added", output_index=len(self.items), item=self.item)
        if part in ("content", "refusal"):
            out += self._event("response.content_part.added", **self._where, part=self._content_part(""))
        return out

    def _content_part(self, words: str) -> Json:
        if self.part == "refusal":
            return {"type": "refusal", "refusal": words}
        marks = logprobs(self.words) if self.logprobs else []
        return {"type": "output_text", "annotations": [], "logprobs": marks, "text": words}

    def _close_summary(self) -> bytes:
        words = "".join(self.words)
        out = self._event("response.reasoning_summary_text.done", **self._where, text=words)
        out += self._event("response.reasoning_summary_part.done", **self._where, part=_summary(words))
        self.item["summary"].append(_summary(words))
        self.words = []
        return out

    def _close_item(self, status: str) -> bytes:
        if self.part is None:
            return b""
        words, out = "".join(self.words), b""
        if self.part == "reasoning":
            out = self._close_summary() if self.words else b""
            if self.encrypted:
                thought = "".join([part["text"] for part in self.item["summary"]])
                self.item["encrypted_content"] = seal(thought, size_bytes=768)
        elif self.part == "tool":
            self.item |= {"status": status, "arguments": words}
            out = self._event("response.function_call_arguments.done", **self._where, arguments=words)
        else:
            part = self._content_part(words)
            whole = {"refusal": words} if self.part == "refusal" else {"logprobs": part["logprobs"], "text": words}
            out = self._event(f"response.{_DELTAS[self.part]}.done", **self._where, **whole)
            out += self._event("response.content_part.done", **self._where, part=part)
            self.item |= {"status": status, "content": [part]}
        out += self._event("response.output_item.done", output_index=len(self.items), item=self.item)
        self.items.append(self.item)
        self.part, self.words = None, []
        return out

    def closing(self, finish: Finish) -> bytes:
        status = "incomplete" if finish == "length" else "completed"
        out = self._close_item(status)
        self.response |= {"status": status, "output": self.items, "usage": self._usage()}
        if finish == "length":
            self.response["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            self.response["completed_at"] = int(time.time())
        return out + self._event(f"response.{status}", response=self.response)

    def failure(self) -> bytes:
        message = "The server had an error processing your request. Sorry about that!"
        self.response |= {"status": "failed", "error": {"code": "server_error", "message": message}}
        return self._event("response.failed", response=self.response)

    def _usage(self) -> Json:
        return {
            "input_tokens": self.ask.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": self.tokens,
            "output_tokens_details": {"reasoning_tokens": self.counts["reasoning"]},
            "total_tokens": self.ask.prompt_tokens + self.tokens,
        }

    def answer(self) -> Json:
        return self.response


_DELTAS: Final[Mapping[Part, str]] = {
    "reasoning": "reasoning_summary_text",
    "content": "output_text",
    "refusal": "refusal",
    "tool": "function_call_arguments",
}


def _summary(words: str) -> Json:
    return {"type": "summary_text", "text": words}
