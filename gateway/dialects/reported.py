"""Errors that an upstream reports inside a 200: recognised, and given the status that they would have had."""

from __future__ import annotations

from typing import Any, Final

from gateway.errors import Failure
from gateway.wire import jsontext

# Words that providers use in `type` or `code`, in order of precedence, and the status that belongs to them.
_STATUS: Final = (
    ("insufficient_quota", 429),
    ("rate_limit", 429),
    ("too_many", 429),
    ("quota", 429),
    ("billing", 402),
    ("authentication", 401),
    ("invalid_api_key", 401),
    ("permission", 403),
    ("not_found", 404),
    ("context_length", 400),
    ("content_filter", 400),
    ("content_policy", 400),
    ("invalid", 400),
    ("too_large", 413),
    ("overloaded", 503),
    ("unavailable", 503),
    ("timeout", 504),
)


def status_of(error: Any) -> int:
    """The HTTP status of an error object (or string) in a stream; 502 where it does not say."""
    if not isinstance(error, dict):
        return 502
    for key in ("code", "status", "http_status", "status_code"):
        number = error.get(key)
        if isinstance(number, str) and number.isdigit():
            number = int(number)
        if isinstance(number, int) and 400 <= number <= 599:
            return number
    words = " ".join(str(error.get(key) or "") for key in ("code", "type", "status")).lower()
    return next((status for word, status in _STATUS if word in words), 502)


def failure_of(error: Any, body: bytes) -> Failure:
    """`body`: the JSON object that carries the error, sent on as it came where it has OpenAI's shape."""
    if not isinstance(error, dict):
        message = error if isinstance(error, str) else "The upstream reported an error without saying which."
        wrapped = {"error": {"message": message, "type": "upstream_error", "param": None, "code": "upstream_error"}}
        return Failure("upstream_error", message, 502, jsontext.dump(wrapped))
    message = str(error.get("message") or "The upstream reported an error.")
    return Failure("upstream_error", message, status_of(error), body)


def reported(top: jsontext.Members) -> Failure | None:
    """The failure that a JSON event reports, if it is one: `{"error": ...}`, or vLLM's `{"object": "error", ...}`."""
    raw = top.get("error")
    if raw is not None and raw != b"null" and raw != b"{}" and raw != b'""' and raw != b"false":
        return failure_of(jsontext.value(raw), jsontext.join(top))
    if "choices" in top or ("type" in top and "message" not in top):
        return None
    if top.get("object") == b'"error"' or ("message" in top and ("code" in top or top.get("type") == b'"error"')):
        error = {key: jsontext.value(raw) for key, raw in top.items() if key not in ("object", "error")}
        return failure_of(error, jsontext.dump({"error": error}))
    return None
