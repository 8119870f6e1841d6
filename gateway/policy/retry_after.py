"""When an upstream says that it may be asked again: in its headers, in its error, in the error's sentence.

Owns the reading of that time. What cannot be read is as if it were not there, and never an error.
Source: RFC 9110, section 10.2.3 (Retry-After); `retry-after-ms` is what Azure and OpenAI send beside it, finer.
"""

from __future__ import annotations

import re
from calendar import timegm
from email.utils import parsedate
from typing import Any, Final

from gateway.wire import jsontext
from gateway.wire.headers import Fields, first

# Plain digits only: `²`, `1e9`, `nan`, `-5` and `1,1` are garbage. Fifteen are more than any wait has.
_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,9})?")
_UNIT: Final = r"(milliseconds?|minutes?|seconds?|hours?|mins?|secs?|ms|s|m|h)"
_DURATION: Final = re.compile(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)\s*{_UNIT}?")
_SENTENCE: Final = re.compile(rf"(?:try again|retry) (?:in|after)\s+((?:[0-9.]{{1,12}}\s*{_UNIT}(?![a-z])\s*){{1,4}})")
_UNITS: Final = {"ms": 0.001, "milliseconds": 0.001, "m": 60.0, "mins": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0}
# Members of an error, or of its details, that hold a time to wait, and the seconds of one unit of a bare number.
_MEMBERS: Final = (("retry_after_ms", 0.001), ("retry_after_seconds", 1.0), ("retry_after", 1.0), ("retryAfter", 1.0), ("retryDelay", 1.0))
_SENTENCE_CHARS: Final = 2000


def told_wait_s(fields: Fields, now_epoch_s: float) -> float | None:
    """Seconds to wait, from a response's fields; None where they do not say. `now_epoch_s`: for a date, where the response has no other."""
    raw = first(fields, b"retry-after-ms")
    found = _number(raw)
    if found is not None:
        return found / 1000
    raw = first(fields, b"retry-after")
    found = _number(raw)
    if found is not None or raw is None:
        return found
    at = _date(raw)
    if at is None:
        return None
    sent = _date(first(fields, b"date") or b"")  # by the upstream's own clock, which may not be ours
    return max(0.0, at - (now_epoch_s if sent is None else sent))


def told_in_error_s(body: bytes | None) -> float | None:
    """The same from an error's JSON: `retry_after`, Google's `retryDelay`, or OpenAI's "Please try again in 1.2s"."""
    if not body:
        return None
    try:
        top = jsontext.value(body)
    except ValueError:
        return None
    error = top.get("error", top) if isinstance(top, dict) else None
    if not isinstance(error, dict):
        return None
    places = [error, top, *(each for each in _listed(error.get("details")) if isinstance(each, dict))]
    for place in places:
        for name, unit_s in _MEMBERS:
            found = _amount(place.get(name), unit_s)
            if found is not None:
                return found
    said = error.get("message")
    match = _SENTENCE.search(said[:_SENTENCE_CHARS].lower()) if isinstance(said, str) else None
    return None if match is None else _sum(match[1])


def _number(raw: bytes | None) -> float | None:
    text = (raw or b"").decode("latin-1").strip(" \t")
    return float(text) if text.isascii() and _NUMBER.fullmatch(text) else None


def _date(raw: bytes) -> float | None:
    try:
        found = parsedate(raw.decode("ascii"))
        return None if found is None else float(timegm(found))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _amount(value: Any, unit_s: float) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value * unit_s if 0 <= value < 1e12 else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return float(text) * unit_s
    return _sum(text) if re.fullmatch(rf"(?:{_DURATION.pattern}\s*)+", text[:40]) else None


def _sum(text: str) -> float | None:
    """`1m30s`, `6ms`, `20 seconds`."""
    total = 0.0
    for amount, unit in _DURATION.findall(text):
        total += float(amount) * _UNITS.get(unit, _UNITS.get(unit + "s", 1.0))
    return total


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
