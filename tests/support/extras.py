"""What stands in chunks besides text: to show that a field which nobody here knows arrives once, whole, whatever became of its chunk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from support.chunks import DONE

_TEXTS = frozenset({"reasoning_content", "reasoning", "content", "refusal"})
_KNOWN_TOP = frozenset({"choices", "usage"})
_KNOWN_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs"})
_KNOWN_DELTA = _TEXTS | {"tool_calls", "role"}
_KNOWN_CALL = frozenset({"index", "id", "function"})

Extra = tuple[str, str]  # where, and the value as JSON


def once(datas: Iterable[str]) -> Counter[Extra]:
    """What must come exactly as often as it was sent: anything with structure, anything inside a choice, padding."""
    return Counter(extra for data in datas for extra, scalar in _extras(data) if not scalar)


def envelope(datas: Iterable[str]) -> set[Extra]:
    """Names and scalars at the top, which every part of a split chunk carries."""
    return {extra for data in datas for extra, scalar in _extras(data) if scalar}


def _extras(data: str) -> Iterator[tuple[Extra, bool]]:
    if data == DONE:
        return
    top = json.loads(data)
    for key, value in top.items():
        if key not in _KNOWN_TOP and value is not None:
            scalar = not isinstance(value, (dict, list)) and key != "obfuscation"
            yield _extra(key, value), scalar
    for choice in top.get("choices") or ():
        legacy = "delta" not in choice and "text" in choice
        where = f"choices[{choice['index']}]"
        for key, value in choice.items():
            if key not in _KNOWN_CHOICE and value is not None and not (legacy and key == "text"):
                yield _extra(f"{where}.{key}", value), False
        delta = choice.get("delta") or {}
        for key, value in delta.items():
            if key not in _KNOWN_DELTA and value is not None:
                yield _extra(f"{where}.delta.{key}", value), False
        for call in delta.get("tool_calls") or ():
            for key, value in call.items():
                if key not in _KNOWN_CALL:
                    yield _extra(f"{where}.call {call.get('index')}.{key}", value), False
            for key, value in (call.get("function") or {}).items():
                if key not in ("name", "arguments"):
                    yield _extra(f"{where}.call {call.get('index')}.function.{key}", value), False


def _extra(where: str, value: Any) -> Extra:
    return where, json.dumps(value, sort_keys=True)
