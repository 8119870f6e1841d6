"""Asking a stream for its usage where the client did not: chat completions and legacy completions tell it only when asked.

Owns the change to the request's body. Invariant: all else in it keeps its bytes and its order.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from gateway.wire import jsontext

_MEMBER: Final = b'"stream_options":{"include_usage":true},'


def asks_already(options: Any) -> bool:
    """`options`: the value of the request's `stream_options`, UNSET where there is none."""
    return isinstance(options, dict) and options.get("include_usage") is True


def asking_usage(body: bytes, options: Any) -> bytes | None:
    """The body, not compressed, that asks for usage too; None where that cannot be put into it."""
    if options is UNSET:
        head, brace, rest = body.partition(b"{")
        return None if not brace or head.strip(b" \t\r\n\xef\xbb\xbf") else head + brace + _MEMBER + rest
    top = jsontext.members(body)
    if options is None:
        members: jsontext.Members = {}
    elif isinstance(options, dict):
        members = jsontext.members(top["stream_options"])
    else:
        return None  # of a wrong type: the upstream's to refuse
    top["stream_options"] = jsontext.join({**members, "include_usage": b"true"})
    return jsontext.join(top)


def refused_for_it(body: bytes) -> bool:
    """Whether an upstream's answer of 400 or 422 names what was asked in addition."""
    return b"stream_options" in body or b"include_usage" in body
