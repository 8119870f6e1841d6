"""What a trace is: when a stream's tokens came, how many, and of what kind. No text, no key, no id.

A file holds one trace as a JSON object, or one a line. Times are milliseconds from the request. What is not said has its default.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.wire.handed import text_of

KINDS: Final = ("content", "reasoning", "tool")
FILE_BYTES: Final = 64 * 2**20
BURSTS_AT_MOST: Final = 200_000  # of one trace: a token each for the longest answers
TOKENS_AT_MOST: Final = 1_000_000  # of one burst
EVENTS_AT_MOST: Final = 1_000_000  # that the bursts of one trace stand for
MS_AT_MOST: Final = 86_400_000.0  # a day


class TraceError(Exception):
    """A file that is none. The message names the file, the line and the field."""


@dataclass(frozen=True, slots=True)
class Burst:
    """at_ms: when its first token came. spread_ms: over how long the others, evenly; 0: all at once. pack: tokens to an event; 0: all."""

    at_ms: float
    tokens: int
    kind: str = "content"
    spread_ms: float = 0.0
    pack: int = 1

    @property
    def events(self) -> int:
        return -(-self.tokens // self.pack) if self.pack else 1


@dataclass(frozen=True, slots=True)
class Trace:
    """done_ms: how long after the last token the end came. end: how, as in the log; `whole` if all came. delivered: what a client got."""

    name: str
    bursts: tuple[Burst, ...]
    about: str = ""
    done_ms: float = 0.0
    dialect: str = ""
    upstream: str = ""
    model: str = ""
    recorded: str = ""  # when, in UTC
    end: str = "whole"
    delivered: tuple[Burst, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(burst.tokens for burst in self.bursts)


def load(path: Path) -> list[Trace]:
    """The traces of a file, at least one. Raises TraceError, also for a file that cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or 'cannot be read'}") from None
    if len(data) > FILE_BYTES:
        raise TraceError(f"{path}: is larger than {FILE_BYTES // 2**20} MiB: take a part of its lines, with `tail -n 50` for example")
    return loads(text_of(data, strict=False), str(path))


def loads(text: str, source: str) -> list[Trace]:
    """As `load`. source: what errors call it. A last line that was not written to its end (a full disk, a killed process) is left out."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if whole is not None:
        rows = [(1, each) for each in (whole if isinstance(whole, list) else [whole])]
    else:
        rows = []
        *lines, torn = text.split("\n")
        for number, line in enumerate([*lines, torn], 1):
            if line.strip():
                try:
                    rows.append((number, json.loads(line)))
                except (ValueError, RecursionError) as error:
                    if rows and number > len(lines):
                        break
                    raise TraceError(f"{source}:{number}: is not JSON: {str(error).split(':')[0]}") from None
    if not rows:
        raise TraceError(f"{source}: holds no trace")
    return [_trace(row, f"{source}:{number}") for number, row in rows]


def line_of(trace: Trace) -> str:
    """One line of JSON, without what has its default."""
    row: dict[str, Any] = {"name": trace.name, "about": trace.about}
    row |= {name: value for name in ("dialect", "upstream", "model", "recorded") if (value := getattr(trace, name))}
    if trace.end != "whole":
        row["end"] = trace.end
    row |= {"done_ms": round(trace.done_ms, 1), "bursts": [_row(burst) for burst in trace.bursts]}
    if trace.delivered:
        row["delivered"] = [_row(burst) for burst in trace.delivered]
    return json.dumps(row, separators=(",", ":"))


def shown(text: str, most: int = 200) -> str:
    """A name as a trace may hold it: a client may call a model anything."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text[:most])


def _row(burst: Burst) -> dict[str, Any]:
    row: dict[str, Any] = {"at_ms": round(burst.at_ms, 1), "tokens": burst.tokens, "kind": burst.kind}
    if burst.spread_ms:
        row["spread_ms"] = round(burst.spread_ms, 1)
    if burst.pack != 1:
        row["pack"] = burst.pack
    return row


def _trace(row: object, where: str) -> Trace:
    if not isinstance(row, Mapping):
        raise TraceError(f"{where}: a trace is an object with bursts")
    bursts = _bursts(row.get("bursts"), f"{where}: bursts")
    if not bursts:
        raise TraceError(f"{where}: bursts: is empty")
    texts = {name: _text(row.get(name, ""), f"{where}: {name}") for name in ("name", "about", "dialect", "upstream", "model", "recorded")}
    return Trace(
        bursts=bursts,
        done_ms=_number(row.get("done_ms", 0), f"{where}: done_ms", MS_AT_MOST),
        end=_text(row.get("end", "whole"), f"{where}: end"),
        delivered=_bursts(row.get("delivered", []), f"{where}: delivered"),
        **{**texts, "name": texts["name"] or "trace"},
    )


def _bursts(value: object, where: str) -> tuple[Burst, ...]:
    if not isinstance(value, list):
        raise TraceError(f"{where}: is a list of objects with at_ms and tokens")
    if len(value) > BURSTS_AT_MOST:
        raise TraceError(f"{where}: holds more than {BURSTS_AT_MOST}")
    found = [_burst(each, f"{where}[{index}]") for index, each in enumerate(value)]
    if sum(burst.events for burst in found) > EVENTS_AT_MOST:
        raise TraceError(f"{where}: stand for more than {EVENTS_AT_MOST} events: give them a larger pack")
    return tuple(sorted(found, key=lambda burst: burst.at_ms))


def _burst(value: object, where: str) -> Burst:
    if not isinstance(value, Mapping):
        raise TraceError(f"{where}: is an object with at_ms and tokens")
    kind = value.get("kind", "content")
    if kind not in KINDS:
        raise TraceError(f"{where}.kind: is one of {', '.join(KINDS)}")
    return Burst(
        at_ms=_number(value.get("at_ms"), f"{where}.at_ms", MS_AT_MOST),
        tokens=_count(value.get("tokens"), f"{where}.tokens", 1),
        kind=str(kind),
        spread_ms=_number(value.get("spread_ms", 0), f"{where}.spread_ms", MS_AT_MOST),
        pack=_count(value.get("pack", 1), f"{where}.pack", 0),
    )


def _number(value: object, where: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= most:
        raise TraceError(f"{where}: is a number from 0 to {most:.0f}")
    return float(value)


def _count(value: object, where: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= TOKENS_AT_MOST:
        raise TraceError(f"{where}: is a whole number from {least} to {TOKENS_AT_MOST}")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > 1000 or not value.isprintable():
        raise TraceError(f"{where}: is a short text")
    return value
