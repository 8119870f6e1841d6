"""The request's body as the upstream gets it: without the controls that are the gateway's.

Owns which members leave. Invariants: a body that carries none of them is not touched; what stays keeps its bytes; a control that is not
taken out for one upstream is not put in for another.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from gateway.policy.controls import FOREIGN_FORMATS, NAMES, STREAM_OPTIONS, Carried
from gateway.wire import jsontext

_UNWRAPPED_AT_MOST: Final = 8  # an extra_body inside an extra_body is a client's mistake; it ends somewhere


def carries(carried: Carried) -> bool:
    """Whether there is anything to take out."""
    options = carried.stream_options
    return any(getattr(carried, name) is not UNSET for name in NAMES) or (
        isinstance(options, dict) and any(name in options for name in STREAM_OPTIONS)
    )


def unwrapped(body: bytes) -> bytes | None:
    """The body with the members of its `extra_body` in its place, as the SDK would have put them; None if that is no object."""
    top = jsontext.members(body)
    for _ in range(_UNWRAPPED_AT_MOST):
        extra = top.pop("extra_body", None)
        if extra is None:
            break
        if extra == b"null":
            continue
        if not extra.startswith(b"{"):
            return None
        top.update(jsontext.members(extra))
    return jsontext.join(top)


def stripped(body: bytes, limit: int | None = None, limit_field: str | None = None) -> bytes:
    """The body without controls. `limit`: of reasoning, to be told the upstream under its own name, `limit_field` (`a.b`: b in a)."""
    top = jsontext.members(body)
    for name in NAMES:
        if name == "reasoning_format" and _foreign(top.get(name)):
            continue
        top.pop(name, None)
    options = top.get("stream_options", b"")
    if options.startswith(b"{"):
        members = jsontext.members(options)
        kept = {name: raw for name, raw in members.items() if name not in STREAM_OPTIONS}
        if len(kept) < len(members):
            top["stream_options"] = jsontext.join(kept)
            if not kept:  # strict upstreams refuse an empty object
                del top["stream_options"]
    if limit is not None and limit_field is not None:
        jsontext.put(top, limit_field.split("."), b"%d" % limit)
    return jsontext.join(top)


def _foreign(raw: bytes | None) -> bool:
    value = jsontext.value(raw) if raw is not None else None
    return isinstance(value, str) and value in FOREIGN_FORMATS
