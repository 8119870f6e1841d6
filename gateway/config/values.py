"""Single values: text to a duration, a size, a number, a word; each with its rule and the sentence that says it.

Must not know files, paths or sections. Every function raises Unfit with a message that names the remedy and not the value,
since a value may be a secret that slipped into the wrong line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches

from gateway.config.nodes import Scalar
from gateway.config.problems import Unfit
from gateway.settings import Range

_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9](?:_?[0-9])*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")  # no octal 0600, no sexagesimal 1:30
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)")
_NUMBER_CHARS = 32  # more digits than any setting has; int() of thousands is slow and then an error
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"b": 1, "kb": 10**3, "kib": 2**10, "mb": 10**6, "mib": 2**20, "gb": 10**9, "gib": 2**30}
_FORMS = {
    "s": "a duration in seconds, or with a unit as in 500ms, 15s, 2m or 1h",
    "bytes": "a size in bytes, or with a unit as in 64KiB, 16MiB or 1GiB",
    "USD": "an amount in US dollars, such as 0.25",
    "": "a number",
}
_UNITS: Mapping[str, Mapping[str, float]] = {"s": _SECONDS, "bytes": _BYTES}


def is_off(value: Scalar) -> bool:
    """`off`, `no`, `false`, `null` or nothing: how a file switches an optional setting off."""
    return value.kind == "nothing" or value.text.lower() == "off" or (value.kind == "true or false" and not boolean(value))


def boolean(value: Scalar) -> bool:
    if value.kind != "true or false":
        raise Unfit(f"must be true or false; found {value.kind}")
    return value.text.lower() in ("true", "yes", "on")


def choice(value: Scalar, choices: tuple[str, ...]) -> str:
    if value.text in choices:
        return value.text
    near = get_close_matches(value.text[:_NUMBER_CHARS].lower(), choices, 1)
    raise Unfit(f"must be {_listed(choices)}" + (f"; did you mean {near[0]}?" if near else ""))


def number(value: Scalar, bounds: Range, whole: bool) -> float | int:
    """A number within `bounds`, in its unit; an int where `whole`."""
    found = _plain_number(value) if value.bare else None
    if found is None and bounds.unit in _UNITS:
        found = _quantity(value.text, _UNITS[bounds.unit])
    if found is None:
        form = "a whole number" if whole and not bounds.unit else _FORMS[bounds.unit]
        raise Unfit(f"must be {form}; found {'a number in another notation' if value.kind == 'a number' else value.kind}")
    if not math.isfinite(found):
        raise Unfit("must be a finite number")
    if whole and found != int(found):
        raise Unfit("must be a whole number" + (" of bytes" if bounds.unit == "bytes" else ""))
    if not bounds.low <= found <= bounds.high:
        raise Unfit(f"must be from {amount(bounds.low, bounds.unit)} to {amount(bounds.high, bounds.unit)}")
    return int(found) if whole else float(found)


def member(value: Scalar) -> str | float | bool:
    """What a member of a request's body is set to: a word, a number, true or false."""
    if value.kind == "nothing":
        raise Unfit("must be a word, a number, true or false; found nothing")
    if value.kind == "true or false":
        return boolean(value)
    if value.kind == "a number" and value.bare:
        found = _plain_number(value)
        if found is None or not math.isfinite(found):
            raise Unfit("must be a word, a number, true or false; found a number in another notation")
        return found
    return value.text


def amount(quantity: float, unit: str) -> str:
    """A number as messages and documents write it: `0.05 s`, `16 MiB`, `65535`."""
    if unit == "bytes":
        for name, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if quantity and quantity % size == 0:
                return f"{quantity // size:g} {name}"
    return f"{quantity:.10g}{' ' + unit if unit else ''}"


def _plain_number(value: Scalar) -> float | int | None:
    text = value.text
    if len(text) <= _NUMBER_CHARS and _NUMBER.fullmatch(text):
        digits = text.replace("_", "")
        return int(digits) if digits.lstrip("+-").isdigit() else float(digits)
    if value.kind == "a number" and text.lower().lstrip("+-") in (".nan", ".inf"):
        return math.nan
    return None


def _quantity(text: str, units: Mapping[str, float]) -> float | None:
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= _NUMBER_CHARS else None
    if match is None:
        return None
    unit = match[2] if match[2] in units else match[2].lower()
    return None if unit not in units else round(float(match[1]) * units[unit], 9)


def _listed(choices: tuple[str, ...]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
