"""What of an answer is the same each time: ids become the number of their first appearance, times and the like go."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any


def lasting(value: Any, ids: dict[str, str], is_id: Callable[[str], bool], passing: Collection[str]) -> Any:
    """`is_id`: of a member's name. `passing`: names of members that are new each time. `ids` is gone on with from answer to answer."""
    if isinstance(value, list):
        return [lasting(item, ids, is_id, passing) for item in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for key, item in value.items():
        if is_id(key) and isinstance(item, str):
            out[key] = ids.setdefault(item, f"id {len(ids)}")
        elif key not in passing:
            out[key] = lasting(item, ids, is_id, passing)
    return out
