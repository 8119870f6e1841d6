"""The register of what a case can expect: one function for each key of `expect`, and the few ways to write one.

Each takes what is wanted and the outcome, and asserts. Must not know any key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cases.meaning import Meaning
from cases.player import Outcome

Check = Callable[[Any, Outcome, Meaning], None]
CHECKS: dict[str, Check] = {}


def expects(name: str) -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        CHECKS[name] = function
        return function

    return register


def equal(name: str, have: Callable[[Outcome, Meaning], Any]) -> None:
    def function(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
        assert have(outcome, meaning) == wanted

    CHECKS[name] = function


def one_of(name: str, have: Callable[[Outcome, Meaning], Any]) -> None:
    def function(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
        assert have(outcome, meaning) in wanted

    CHECKS[name] = function


def ignored(name: str) -> None:
    CHECKS[name] = lambda wanted, outcome, meaning: None


# Paths into JSON


def found(path: str, objects: list[Any]) -> list[Any]:
    """All values at a path like `choices[].delta.refusal`."""
    values = objects
    for step in path.split("."):
        name, many = step.removesuffix("[]"), step.endswith("[]")
        values = [each[name] for each in values if isinstance(each, dict) and each.get(name) is not None]
        if many:
            values = [one for each in values for one in each]
    return values


def at(path: str, value: Any) -> Any:
    """The value at a path like `choices[0].message.content`."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        value = value[name] if name else value[int(index)]
    return value
