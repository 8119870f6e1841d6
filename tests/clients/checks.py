"""What is tried with a client: a sentence, and what raises where it does not hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

# Scenarios that an agent tells of as it does directly: text, a tool, an answer that is declined, cut short, or refused.
ALIKE: Final = (
    "smooth-then-clusters",
    "large-deltas",
    "tool-call",
    "refusal",
    "out-of-tokens",
    "error-in-stream",
    "rate-limited",
    "overloaded",
)


@dataclass(frozen=True)
class Check:
    fact: str
    run: Callable[[], object]


def same(direct: Any, gateway: Any) -> None:
    assert gateway == direct, f"direct: {_end(direct)}\ngateway: {_end(gateway)}"


def _end(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[-700:]
