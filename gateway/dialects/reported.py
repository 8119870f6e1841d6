"""Errors that an upstream reports inside a 200, or in the body of a refusal: recognised in the shapes that servers use, given the status
that they would have had, and brought to the one shape that clients read.

A Failure from here has a `body` of the form `{"error": {"message": ..., ...}}`: the upstream's own bytes where they have that form.
Must not know of any one protocol's events: an object that is none of these shapes is no error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gateway.errors import Failure
from gateway.wire import jsontext
from gateway.wire.jsontext import Members

# Words that providers use in `type` or `code`, in order of precedence, and the status that belongs to them.
_STATUS: Final = (
    ("insufficient_quota", 429),
    ("rate_limit", 429),
    ("too_many", 429),
    ("quota", 429),
    ("resource_exhausted", 429),
    ("billing", 402),
    ("authentication", 401),
    ("unauthenticated", 401),
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
# MiniMax's numbers in `base_resp`: too many requests, no such key, no balance, too many tokens, a bad parameter.
_BASE_RESP_STATUS: Final = {1002: 429, 1004: 401, 1008: 402, 1039: 429, 2013: 400}
_NOTHING: Final = frozenset({b"null", b"{}", b'""', b"false", b"0", b"[]"})
_NO_CHOICES: Final = frozenset({b"null", b"[]"})
_FINE: Final = frozenset({"", "0", "200", "none", "ok", "success"})  # values of `code` beside a message that report no error
_FAILED: Final = frozenset({"error", "fail", "failed", "failure"})
# Where the sentence for people stands, in order of preference.
_SAID: Final = ("message", "msg", "detail", "error_description", "error_msg", "status_msg", "error", "errors", "title", "reason")
# What may stand beside a bare `message` so that the object is still nothing but an error: a gateway's own bookkeeping.
_BESIDE: Final = frozenset({"message", "request_id", "requestId", "trace_id", "timestamp", "path", "documentation_url"})
# A stream that was to be added up to one answer, and cannot be.
MALFORMED: Final = Failure(
    "upstream_bad_event", "The upstream sent an event that is not as its protocol says, so part of the answer is missing. Ask again."
)
_UNSAID: Final = "The upstream reported an error without saying which."
REFUSAL_BYTES: Final = 64 * 1024  # of an upstream's error that goes into a stream which has begun: as much as one read
_DEEP: Final = 4  # how far down the sentence is looked for


def status_of(error: Any) -> int:
    """The HTTP status of an error object (or string) in a stream; 502 where it does not say."""
    if not isinstance(error, dict):
        return 502
    for key in ("code", "status", "http_status", "status_code"):
        number = error.get(key)
        if isinstance(number, str) and number.isdecimal():
            number = int(number)
        if isinstance(number, int) and 400 <= number <= 599:
            return number
    words = " ".join(str(error.get(key) or "") for key in ("code", "type", "status")).lower()
    return next((status for word, status in _STATUS if word in words), 502)


def failure_of(error: Any, body: bytes) -> Failure:
    """`body`: the JSON object that carries the error as its member `error`, sent on as it came where it has OpenAI's shape."""
    said = _said(error) or _UNSAID
    if isinstance(error, dict) and isinstance(error.get("message"), str) and error["message"]:
        return Failure("upstream_error", said, status_of(error), body)
    top = jsontext.members(body)
    own = jsontext.members(top["error"]) if isinstance(error, dict) else {}
    status = status_of(error if isinstance(error, dict) else {key: jsontext.value(raw) for key, raw in top.items() if key != "error"})
    return Failure("upstream_error", said, status, jsontext.join({**top, "error": _shaped(own, said)}))


def reported(top: Members) -> Failure | None:
    """The failure that a JSON object reports, if it is one: `{"error": ...}`, or another of the shapes that servers use."""
    if top.get("error", b"null") not in _NOTHING:
        return failure_of(jsontext.value(top["error"]), jsontext.join(top))
    if top.get("choices", b"null") not in _NO_CHOICES:
        return None
    if top.get("base_resp", b"").startswith(b"{"):
        base = jsontext.value(top["base_resp"])
        if isinstance(number := base.get("status_code"), int) and number:
            said = _said(base) or _UNSAID
            body = b'{"error":' + _shaped({"code": b"%d" % number}, said) + b"}"
            return Failure("upstream_error", said, _BASE_RESP_STATUS.get(number, 502), body)
    if top.get("choices", b"null") != b"null" or not _is_error(top):
        return None
    own = {key: raw for key, raw in top.items() if key not in ("object", "error")}
    return _failure(own)


def reported_in(body: bytes) -> Failure | None:
    """The same for the whole text of an answer, also for an error in a list, as Google sends it. None where it is no JSON."""
    try:
        text = jsontext.strict(body.strip())
        if text.startswith(b"["):
            text = next(iter(jsontext.elements(text)), b"")
        return reported(jsontext.members(text))
    except (ValueError, TypeError, AttributeError):
        return None


def refused(status: int, body: bytes) -> Failure:
    """An answer whose status is an error's, for a client that can be told only in its stream. Of what is not JSON nothing is quoted: a
    page in HTML says nothing that helps."""
    plain = Failure("upstream_error", f"The upstream answered {status}.", status)
    if len(body) > REFUSAL_BYTES:
        return plain
    found = reported_in(body)
    if found is not None:
        return replace(found, status=status)
    try:
        said = jsontext.value(body)
        if isinstance(said, str) and said.strip():
            return replace(plain, message=said.strip())
        if isinstance(said, dict) and _said(said):
            return replace(_failure(jsontext.members(body.strip())), status=status)
    except ValueError:
        pass
    return plain


def told(words: bytes) -> Failure | None:
    """The failure in an event that is named `error` but holds no JSON: its words."""
    said = words[:REFUSAL_BYTES].decode("utf-8", "replace").strip()
    if not said or said.startswith(("{", "[", "<")):
        return None
    return Failure("upstream_error", said, 502, b'{"error":' + _shaped({}, said) + b"}")


def _failure(own: Members) -> Failure:
    """From an object that is itself the error."""
    values = {key: jsontext.value(raw) for key, raw in own.items()}
    said = _said(values) or _UNSAID
    status = status_of(values)
    if status == 502:  # `{"errors": [{"code": 429, ...}]}`
        inner = next((each for key in ("errors", "detail") for each in _listed(values.get(key)) if isinstance(each, dict)), None)
        status = status_of(inner)
    return Failure("upstream_error", said, status, b'{"error":' + _shaped(own, said) + b"}")


def _shaped(own: Members, said: str) -> bytes:
    """An error object with all that clients read, of its own members where it has them."""
    rest = {"type": b'"upstream_error"', "param": b"null", "code": b'"upstream_error"'}
    message = own.get("message", b"")
    told = message if message.startswith(b'"') and message != b'""' else jsontext.quote(said)
    return jsontext.join({**own, "message": told, **{key: raw for key, raw in rest.items() if key not in own}})


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _said(error: Any, deep: int = _DEEP) -> str:
    """The sentence in an error, whatever its form; empty where there is none."""
    if isinstance(error, str):
        return error.strip()
    if deep and isinstance(error, list):
        return next((said for each in error if (said := _said(each, deep - 1))), "")
    if deep and isinstance(error, dict):
        return next((said for key in _SAID if (said := _said(error.get(key), deep - 1))), "")
    return ""


def _is_error(top: Members) -> bool:
    """Whether an object without `error` and without choices is one all the same. An event of a protocol has a `type` or an `object`:
    of these only what calls itself an error, or has a message and a code, is one."""

    def text(key: str) -> str:
        raw = top.get(key, b"")
        found = jsontext.value(raw) if raw.startswith(b'"') else raw.decode("ascii", "replace") if raw not in _NOTHING else ""
        return str(found).strip().lower()

    if top.get("object") == b'"error"' or top.get("type") == b'"error"':
        return True
    has_message = top.get("message", b"").startswith(b'"') and bool(text("message"))
    number = text("status")
    if number.isdecimal() and int(number) >= 400 and (has_message or text("title") or text("detail")):
        return True
    if has_message and text("code") not in _FINE:
        return True
    if "type" in top or "object" in top:
        return False
    if top.get("msg", b"").startswith(b'"') and text("code") not in _FINE:
        return True
    if (text("status") in _FAILED or top.get("success") == b"false") and bool(
        _said({key: jsontext.value(raw) for key, raw in top.items()})
    ):
        return True
    if top.get("errors", b"null") not in _NOTHING:
        return True
    detail = top.get("detail", b"null")
    if detail[:1] in (b'"', b"[", b"{") and detail not in _NOTHING:
        return True
    return has_message and top.keys() <= _BESIDE
