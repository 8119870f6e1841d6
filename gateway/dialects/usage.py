"""Usage as each API writes it, read into one form. What is missing or of an odd type counts as not said."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.dialects.base import FAULTS, Usage
from gateway.wire import jsontext


class _Answer(msgspec.Struct, gc=False):
    usage: Any = None


_ANSWER = msgspec.json.Decoder(_Answer)


def of_choices(usage: Any) -> Usage | None:
    """Chat completions and legacy completions: cached tokens are part of the prompt."""
    if not isinstance(usage, dict):
        return None
    prompt, answer = _number(usage, "prompt_tokens"), _number(usage, "completion_tokens")
    details, answered = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    reasoning = _count(answered, "reasoning_tokens") or _count(usage, "reasoning_tokens")
    unlisted = _count(usage, "total_tokens") - (prompt or 0) - (answer or 0) if reasoning and prompt is not None else 0
    return Usage(
        prompt,
        answer,
        cache_read_tokens=_count(details, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens") or _count(usage, "cached_tokens"),
        cache_write_tokens=_count(details, "cache_write_tokens") or _count(details, "cache_creation_tokens"),
        reasoning_tokens=reasoning,
        unlisted_tokens=max(0, min(unlisted, reasoning)),
    )


def of_responses(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return Usage(
        _number(usage, "input_tokens"),
        _number(usage, "output_tokens"),
        cache_read_tokens=_count(usage.get("input_tokens_details"), "cached_tokens"),
        cache_write_tokens=_count(usage.get("input_tokens_details"), "cache_write_tokens"),
        reasoning_tokens=_count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )


def of_messages(*said: Any) -> Usage | None:
    """`said`: the message's own usage and those of its deltas, the later ones above the earlier. Cached tokens are beside the input."""
    usage: dict[str, Any] = {}
    for each in said:
        if isinstance(each, dict):
            usage.update({name: value for name, value in each.items() if value or usage.get(name) is None})  # some deltas say 0 for all
    if not usage:
        return None
    read, write = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
    fresh = _number(usage, "input_tokens")
    return Usage(
        None if fresh is None else fresh + read + write,
        _number(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_1h_tokens=_count(usage.get("cache_creation"), "ephemeral_1h_input_tokens"),
        reasoning_tokens=_count(usage.get("output_tokens_details"), "thinking_tokens"),
    )


def of_answer(dialect: str, body: bytes) -> Usage | None:
    """From a whole answer's JSON."""
    try:
        usage = _ANSWER.decode(body).usage
    except (msgspec.DecodeError, RecursionError):
        try:
            usage = jsontext.value(jsontext.members(body).get("usage", b"null"))
        except FAULTS:
            return None
    if dialect == "responses":
        return of_responses(usage)
    return of_messages(usage) if dialect == "messages" else of_choices(usage)


def _number(usage: Any, name: str) -> int | None:
    found = usage.get(name) if isinstance(usage, dict) else None
    return found if type(found) is int and found >= 0 else None


def _count(usage: Any, name: str) -> int:
    return _number(usage, name) or 0
