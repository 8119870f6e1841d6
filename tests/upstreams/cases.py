"""What is asked of each server: greedy, so that the same question has the same answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Params = dict[str, Any]

_SAID: Final = "Tell me of the gateway."
_LIMIT: Final = 160
_GREEDY: Final = {"temperature": 0, "stream": True}
_SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "東京", "São Paulo"]}, "days": {"enum": [1, 2, 3]}},
    "required": ["city", "days"],
}
_FORCED: Final = {
    "tools": [{"type": "function", "function": {"name": "forecast", "parameters": _SCHEMA}}],
    "tool_choice": {"type": "function", "function": {"name": "forecast"}},
}
PLAYED: Final = ("tool-call", "reasoning-field", "large-deltas", "out-of-tokens", "instant")


@dataclass(frozen=True)
class Case:
    """finish: how it has to end, so that a case tests what it says. stop: asked with a word of the answer that the case before it gave, so
    that the model ends of its own accord. refused: an error is the right answer. empty: the server answers 200 without a body, which a client
    takes for a success and the gateway tells as `upstream_empty`."""

    name: str
    params: Params
    finish: str = ""
    stop: bool = False
    refused: bool = False
    empty: bool = False


@dataclass(frozen=True)
class Row:
    """One table row: a server's model in one dialect. at_once: its cases may be asked together, since the server can, and takes its time."""

    server: str
    dialect: str
    cases: list[Case] = field(default_factory=list)
    at_once: bool = False


def _chat(model: str, **more: Any) -> Params:
    return {"model": model, "messages": [{"role": "user", "content": _SAID}], "max_tokens": _LIMIT, **_GREEDY, **more}


def _messages(model: str, **more: Any) -> Params:
    """Newer versions of Anthropic's SDK know no temperature."""
    asked = {"model": model, "messages": [{"role": "user", "content": _SAID}], "max_tokens": _LIMIT, "stream": True}
    return {**asked, "extra_body": {"temperature": 0}, **more}


def _responses(model: str, **more: Any) -> Params:
    return {"model": model, "input": _SAID, "max_output_tokens": _LIMIT, **_GREEDY, **more}


def _completions(model: str, **more: Any) -> Params:
    return {"model": model, "prompt": _SAID, "max_tokens": _LIMIT, **_GREEDY, **more}


def chat(model: str) -> Iterator[Case]:
    more = {"stream_options": {"include_usage": True}}
    yield Case("the token limit", _chat(model, **more), "length")
    yield Case("a stop word", _chat(model, **more), "stop", stop=True)
    yield Case("a long answer", _chat(model, **{**more, "max_tokens": 400}), "length")
    yield Case("the whole answer", _chat(model, stream=False))


def completions(model: str) -> Iterator[Case]:
    yield Case("the token limit", _completions(model), "length")
    yield Case("a stop word", _completions(model), "stop", stop=True)
    yield Case("the whole answer", _completions(model, stream=False))


def responses(model: str) -> Iterator[Case]:
    yield Case("the token limit", _responses(model))
    yield Case("a long answer", _responses(model, max_output_tokens=400))
    yield Case("the whole answer", _responses(model, stream=False))


def messages(model: str) -> Iterator[Case]:
    yield Case("the token limit", _messages(model), "max_tokens")
    yield Case("a long answer", _messages(model, max_tokens=400), "max_tokens")
    yield Case("the whole answer", _messages(model, stream=False))


def played(asked: Callable[..., Params], prefix: str = "") -> list[Case]:
    """What the embedded upstream plays, once more through litellm, whose own encoder it then is."""
    return [Case(name, asked(f"{prefix}{name}")) for name in PLAYED]


def rows(tiny: str) -> dict[str, list[Row]]:
    """By the way to the model. tiny: its name at transformers, the folder."""
    another, field = (
        Case("another model", _chat("another"), refused=True),
        Case("an unknown field", _chat(tiny, extra_body={"colour": "red"}), refused=True),
    )
    too_long = _chat("tiny", messages=[{"role": "user", "content": "word " * 4000}])
    beyond = [
        Case("more than the context", too_long, empty=True),
        Case("more than the context, whole", {**too_long, "stream": False}, refused=True),
    ]
    return {
        "transformers": [
            Row("transformers", "chat", [*chat(tiny), another, field]),
            Row("transformers", "completions", [*completions(tiny)]),
            Row("transformers", "responses", [*responses(tiny)]),
        ],
        "llama": [
            Row("llama", "chat", [*chat("tiny"), Case("a tool call", _chat("tiny", **_FORCED), "tool_calls"), *beyond]),
            Row("llama", "completions", [*completions("tiny")]),
        ],
        "litellm": [
            Row("transformers", "chat", [*chat("transformers"), another]),
            Row("transformers", "messages", [*messages("transformers")]),
            Row("llama", "chat", [*chat("llama"), Case("a tool call", _chat("llama", **_FORCED), "tool_calls")]),
            Row("llama", "messages", [*messages("llama")]),
            Row("simulate", "chat", played(_chat), at_once=True),
            Row("simulate", "responses", played(_responses), at_once=True),
            Row("simulate", "messages", played(_messages, "anthropic-"), at_once=True),
        ],
    }
