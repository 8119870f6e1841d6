"""The request that goes on with an answer that was cut: the client's own, with the answer so far as the beginning of the next.

Owns where each protocol takes that beginning. None where it cannot: several answers, a prompt that is no text, thinking that forbids it.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.text import weigh
from gateway.wire import jsontext
from gateway.wire.jsontext import Members

_LIMITS: Final = ("max_tokens", "max_completion_tokens")


def continued(dialect: str, body: bytes, text: str, prefill: str) -> bytes | None:
    """`prefill`: how the upstream is told: plain, prefix or final_message."""
    try:
        top = jsontext.members(body)
        if not _lowered(top, text):
            return None
        if dialect == "chat":
            return _chat(top, text, prefill)
        if dialect == "completions":
            return _completions(top, text)
        return _messages(top, text) if dialect == "messages" else None
    except ValueError:
        return None


def _chat(top: Members, text: str, prefill: str) -> bytes | None:
    if top.get("n", b"1") not in (b"1", b"null"):
        return None
    messages, begun = _turns(top)
    if begun is None:
        return None
    message = {"role": b'"assistant"', "content": jsontext.quote(begun + text)}
    if prefill == "prefix":
        message["prefix"] = b"true"
    elif prefill == "final_message":
        top["continue_final_message"], top["add_generation_prompt"] = b"true", b"false"
    top["messages"] = jsontext.array([*messages, jsontext.join(message)])
    return jsontext.join(top)


def _completions(top: Members, text: str) -> bytes | None:
    prompt = jsontext.value(top.get("prompt", b"null"))
    alone = all(top.get(name, b"null") in (b"1", b"null") for name in ("n", "best_of"))
    if (
        not isinstance(prompt, str)
        or not alone
        or top.get("echo", b"null") not in (b"false", b"null")
        or top.get("suffix", b"null") != b"null"
    ):
        return None
    top["prompt"] = jsontext.quote(prompt + text)
    return jsontext.join(top)


def _messages(top: Members, text: str) -> bytes | None:
    thinking = jsontext.value(top.get("thinking", b"null"))
    if isinstance(thinking, dict) and thinking.get("type") != "disabled":  # then an answer must begin with its thinking
        return None
    messages, begun = _turns(top)
    begun = None if begun is None else (begun + text).rstrip()  # which the API refuses at the end of a begun answer
    if not begun:
        return None
    top["messages"] = jsontext.array([*messages, jsontext.join({"role": b'"assistant"', "content": jsontext.quote(begun)})])
    return jsontext.join(top)


def _turns(top: Members) -> tuple[list[bytes], str | None]:
    """The messages, and the beginning of the answer that the client gave itself; None where it is no plain text."""
    messages = jsontext.elements(top.get("messages", b""))
    if not messages:
        return messages, None
    last = jsontext.value(messages[-1])
    if not isinstance(last, dict) or last.get("role") != "assistant":
        return messages, ""
    content = last.get("content")
    return messages[:-1], content if isinstance(content, str) and not last.get("tool_calls") else None


def _lowered(top: Members, text: str) -> bool:
    """Limits on the answer's length, less what was said. False where nothing is left."""
    said = round(weigh(text))
    for name in _LIMITS:
        most = jsontext.value(top[name]) if name in top else None
        if isinstance(most, int) and not isinstance(most, bool):
            if most <= said:
                return False
            top[name] = b"%d" % (most - said)
    return True
