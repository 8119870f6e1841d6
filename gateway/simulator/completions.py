"""Legacy completions: text only, so reasoning and calls come as the tags that a model prints."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import accumulate

from gateway.simulator.ask import Ask, ask, invalid
from gateway.simulator.chat import in_stream_error, usage
from gateway.simulator.encode import Json, logprob, new_id, sse
from gateway.simulator.play import Delta, Finish, Renderer
from gateway.simulator.scenarios import Scenario


def read(body: Json, headers: Mapping[str, str]) -> Ask:
    prompt = body.get("prompt")
    if not isinstance(prompt, str | list):
        raise invalid("Missing required parameter: 'prompt'.", "prompt")
    prompts = prompt if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else [prompt]
    last = prompts[-1] if isinstance(prompts[-1], str) else ""
    number = body.get("n")
    return ask(body, headers, last_user=last, choices=len(prompts) * (number if isinstance(number, int) else 1))


class Completions(Renderer):
    flat = True

    def __init__(self, ask: Ask, scenario: Scenario) -> None:
        super().__init__(ask, scenario)
        options = ask.body.get("stream_options")
        self.include_usage = isinstance(options, dict) and bool(options.get("include_usage"))
        asked = ask.body.get("logprobs")
        self.logprobs: int | None = asked if isinstance(asked, int) and not isinstance(asked, bool) else None
        self.head: Json = {
            "id": new_id("cmpl-"),
            "object": "text_completion",
            "created": int(time.time()),
            "model": ask.model,
            "system_fingerprint": "fp_simulated",
        }
        self.said: list[list[str]] = [[] for _ in range(ask.choices)]
        self.offsets = [0] * ask.choices  # characters said so far, by choice

    def _chunk(self, choice: Json) -> bytes:
        chunk = {**self.head, "choices": [choice]}
        if self.include_usage:
            chunk["usage"] = None
        return sse(chunk)

    def opening(self) -> bytes:
        return b""  # there is no role to tell

    def delta(self, delta: Delta) -> bytes:
        self.count(delta)
        choice, words = delta.choice, delta.text
        marks = self._marks(delta.tokens, self.offsets[choice])
        self.said[choice] += delta.tokens
        self.offsets[choice] += len(words)
        return self._chunk({"text": words, "index": choice, "logprobs": marks, "finish_reason": None})

    def _marks(self, tokens: tuple[str, ...] | list[str], offset: int) -> Json | None:
        if self.logprobs is None:
            return None
        values = [logprob(token) for token in tokens]
        return {
            "tokens": list(tokens),
            "token_logprobs": values,
            "top_logprobs": [{token: value} if self.logprobs else {} for token, value in zip(tokens, values, strict=True)],
            "text_offset": list(accumulate(map(len, tokens[:-1]), initial=offset)) if tokens else [],
        }

    def closing(self, finish: Finish) -> bytes:
        self.finish = "length" if finish == "length" else "stop"
        ends = [{"text": "", "index": i, "logprobs": None, "finish_reason": self.finish} for i in range(self.ask.choices)]
        out = [self._chunk(end) for end in ends]
        if self.include_usage:
            out.append(sse({**self.head, "choices": [], "usage": self._usage()}))
        return b"".join(out) + b"data: [DONE]\n\n"

    def failure(self) -> bytes:
        return sse({"error": in_stream_error()})

    def _usage(self) -> Json:
        return usage(self.ask.prompt_tokens, self.tokens, 0)

    def answer(self) -> Json:
        choices = [
            {"text": "".join(said), "index": i, "logprobs": self._marks(said, 0), "finish_reason": self.finish}
            for i, said in enumerate(self.said)
        ]
        return {**self.head, "choices": choices, "usage": self._usage()}
