"""What is asked of every client: request parameters as the APIs have them, so that they serve Python and JavaScript alike."""

from __future__ import annotations

from typing import Any, Final

Params = dict[str, Any]

# The embedded upstream's times are divided by this: clusters stay clusters, and 13 s become 0.65.
HEADERS: Final = {"x-simulate-speed": "20"}
AT_ONCE: Final = {"x-simulate-speed": "100000"}  # for the direct calls, whose times say nothing

# Refused before the stream: the client sees the upstream's own answer, so the same exception in every detail.
REFUSED: Final = ("rate-limited", "overloaded", "a-model-that-nobody-has")
REPORTED: Final = "error-in-stream"  # the upstream says so itself
CUT_SHORT: Final = ("dies-half-way", "no-finish")  # the latter passes for a success in a direct call of most clients
SLOW: Final = "steady"  # 5 s at its own pace: time enough to leave

_ASKED: Final = [{"role": "user", "content": "Write the file."}]
_SCHEMA: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
    "additionalProperties": False,
}
_ARGUMENTS: Final = '{"path":"a","content":"b"}'
# Grapheme clusters of several code points, both planes, line ends that are none in an event stream.
_ODD: Final = "Grüße 👩‍👩‍👧‍👦 🇩🇪🇫🇷 e\u0301\u0323 漢字かな 한국어 עברית \u2028\u2029\u0085 \\n \"'</think> \t{}[] 𝔘𝔫𝔦 0️⃣ " * 12
_USAGE: Final = {"stream_options": {"include_usage": True}}

WRITE_FILE: Final = {"type": "function", "function": {"name": "write_file", "description": "Writes a file", "parameters": _SCHEMA}}
_WRITE_FILE: Final = {"type": "function", "name": "write_file", "description": "Writes a file", "parameters": _SCHEMA, "strict": True}
_CALLED: Final = {"id": "call_1", "type": "function", "function": {"name": "write_file", "arguments": _ARGUMENTS}}


def chat(model: str, **more: Any) -> Params:
    return {"model": model, "messages": _ASKED, **more}


def responses(model: str, **more: Any) -> Params:
    return {"model": model, "input": "Write the file.", **more}


def messages(model: str, **more: Any) -> Params:
    return {"model": model, "messages": _ASKED, "max_tokens": 4096, **more}


CHAT: Final[dict[str, Params]] = {
    "reasoning then text in clusters": chat("smooth-then-clusters", **_USAGE),
    "reasoning under its other name": chat("reasoning-field"),
    "deltas of a hundred tokens": chat("large-deltas"),
    "two choices with log-probabilities": chat("large-deltas", n=2, logprobs=True, **_USAGE),
    "a tool call": chat("tool-call", tools=[WRITE_FILE], **_USAGE),
    "a tool's result answered": chat(
        "tool-call",
        tools=[WRITE_FILE],
        messages=[
            *_ASKED,
            {"role": "assistant", "content": None, "tool_calls": [_CALLED]},
            {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
        ],
    ),
    "a refusal": chat("refusal"),
    "the token limit": chat("out-of-tokens", **_USAGE),
    "the whole answer in one write": chat("instant", **_USAGE),
    "every kind of character": chat("echo", messages=[{"role": "user", "content": _ODD}]),
}

# For libraries around an SDK, which take a millisecond for each chunk.
WRAPPED: Final = {
    name: CHAT[name]
    for name in (
        "reasoning under its other name",
        "deltas of a hundred tokens",
        "a tool call",
        "the token limit",
        "the whole answer in one write",
        "every kind of character",
    )
}

RESPONSES: Final[dict[str, Params]] = {
    "reasoning then text in clusters": responses("smooth-then-clusters", include=["reasoning.encrypted_content"], store=False),
    "deltas of a hundred tokens": responses("large-deltas", include=["message.output_text.logprobs"]),
    "a tool call": responses("tool-call", tools=[_WRITE_FILE]),
    "a tool's result answered": responses(
        "tool-call",
        tools=[_WRITE_FILE],
        input=[
            *_ASKED,
            {"type": "function_call", "call_id": "call_1", "name": "write_file", "arguments": _ARGUMENTS},
            {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
        ],
    ),
    "a refusal": responses("refusal"),
    "the token limit": responses("out-of-tokens"),
    "the whole answer in one write": responses("instant"),
    "every kind of character": responses("echo", input=_ODD),
}

MESSAGES: Final[dict[str, Params]] = {
    "reasoning then text in clusters": messages("smooth-then-clusters", thinking={"type": "enabled", "budget_tokens": 2048}),
    "deltas of a hundred tokens": messages("large-deltas"),
    "a tool call": messages("tool-call", tools=[{"name": "write_file", "input_schema": _SCHEMA}]),
    "a tool's result answered": messages(
        "tool-call",
        tools=[{"name": "write_file", "input_schema": _SCHEMA}],
        messages=[
            *_ASKED,
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "write_file", "input": {"path": "a"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]},
        ],
    ),
    "a refusal": messages("refusal"),
    "the token limit": messages("out-of-tokens"),
    "the whole answer in one write": messages("instant"),
    "every kind of character": messages("echo", messages=[{"role": "user", "content": _ODD}]),
}
