"""What reasoning and text weigh that stand in lists: parts of a content, details beside it. Knows nothing of chunks."""

from __future__ import annotations

from typing import Any

from gateway.dialects.text import weigh
from gateway.piece import Kind


def details_weight(details: Any) -> tuple[Kind, float]:
    """Reasoning that comes as details only, which are never cut: their text is signed."""
    listed = [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
    texts = [detail.get("text") or detail.get("summary") for detail in listed]
    weight = sum(weigh(text) for text in texts if isinstance(text, str))
    return (Kind.REASONING, weight) if weight else (Kind.STRUCTURE, 0.0)


def parts_weight(parts: Any, kind: Kind) -> tuple[Kind, float]:
    """Content as a list of parts: its kind (that of the last part) and weight."""
    weight = 0.0
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        thinking = part.get("type") in ("thinking", "reasoning")
        kind = Kind.REASONING if thinking else Kind.CONTENT
        inner = part.get("thinking") or part.get("text") or part.get("reasoning")
        if isinstance(inner, list):
            weight += parts_weight(inner, kind)[1]
        elif isinstance(inner, str):
            weight += weigh(inner)
    return kind, weight
