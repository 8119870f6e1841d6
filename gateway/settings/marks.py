"""What stands beside a setting's type: the range of a number, the form of a text. gateway/config holds a file to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Range:
    """What a number may be, ends included; gateway/config holds a file to it, code that builds settings by itself is free."""

    low: float
    high: float
    unit: Literal["s", "bytes", "USD", ""] = ""


@dataclass(frozen=True, slots=True)
class Text:
    """What a string is, so that gateway/config knows its form and which ones `--print-config` hides."""

    role: Literal["name", "model", "pattern", "url", "host", "secret", "file", "output", "sha256", "redis", "origin"]


# Members of a request's body and what they are set to: `reasoning_effort: low`. A name may lead into objects: `reasoning.effort`.
Member = tuple[str, str | float | bool]
Cap = tuple[str, int]
