"""What an honest client makes of a stream of typed events, Responses or Messages: texts by their place, all else whole and in order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from support.chunks import DONE, whole_pairs

# Which of the answer's texts a delta goes on with.
_PLACE: Final = ("type", "item_id", "output_index", "content_index", "summary_index", "response_id", "index")
_MEMBERS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


@dataclass
class Run:
    """Deltas of one text, one after the other. rest: what they carried besides, log-probabilities in one list."""

    place: Any
    text: str = ""
    logprobs: list[Any] = field(default_factory=list)
    rest: list[Any] = field(default_factory=list)


@dataclass
class Said:
    """runs: texts and, between them, the other events as they are, in order. numbers: the sequence numbers."""

    runs: list[Any] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)


def said(datas: Iterable[str]) -> Said:
    got = Said()
    for data in datas:
        if data == DONE:
            continue
        top = json.loads(data)
        got.kinds.append(top["type"])
        if "sequence_number" in top:
            got.numbers.append(top.pop("sequence_number"))
        found = _text(top)
        if found is None:
            got.runs.append(top)
            continue
        text, rest = found
        place = [top.get(name) for name in _PLACE] + [rest.pop("kind", None)]
        if not (got.runs and isinstance(got.runs[-1], Run) and got.runs[-1].place == place):
            got.runs.append(Run(place))
        run = got.runs[-1]
        run.text = whole_pairs(run.text + text)
        run.logprobs += rest.pop("logprobs", [])
        run.rest += [rest] if rest else []
    return got


def _text(top: Any) -> tuple[str, dict[str, Any]] | None:
    """The text of a delta and what it has besides; None where it is none."""
    delta = top.get("delta")
    rest = {key: value for key, value in top.items() if key not in (*_PLACE, "delta")}
    if isinstance(delta, str) and top["type"].endswith(".delta"):
        return delta, rest
    member = _MEMBERS.get(delta.get("type")) if isinstance(delta, dict) else None
    if member is None:
        return None
    inner = {key: value for key, value in delta.items() if key not in ("type", member)}
    return delta[member], {**rest, **inner, "kind": member}
