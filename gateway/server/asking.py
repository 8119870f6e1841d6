"""What a request asks for: its body read within bounds, and the few fields of it that the gateway acts on.

The body goes to the upstream as it came; only a copy is looked into, and of that only the named fields are built.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gateway.errors import Failure
from gateway.policy.controls import Carried
from gateway.wire import jsontext
from gateway.wire.coding import KNOWN, CodingError, Decompressor, codings
from gateway.wire.headers import Fields, first

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
CHOICES_AT_MOST: Final = 1024  # choices that a request may ask for and we keep count of


class ClientGone(Exception):
    """The client left before its request was whole."""


class Refused(Exception):
    """The request cannot be taken; `failure` is the answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


class _Fields(Carried, gc=False):
    model: Any = None
    stream: Any = None
    n: Any = None
    prompt: msgspec.Raw = msgspec.Raw(b"null")


_DECODER: Final = msgspec.json.Decoder(_Fields)


@dataclass(frozen=True, slots=True)
class Ask:
    """model: as the body names it. stream: whether an event stream is asked for. choices: how many answers it will hold.

    carried: the members that may be controls; None where the body is no object.
    """

    model: str | None = None
    stream: bool = False
    choices: int = 1
    carried: Carried | None = field(default=None, compare=False, repr=False)


async def read_body(receive: Receive, fields: Fields, limit_bytes: int) -> bytes:
    """The whole body. Refused above the limit, before the rest is read; ClientGone if the client leaves."""
    announced = first(fields, b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > limit_bytes:
        raise Refused(too_large(limit_bytes))
    parts: list[bytes] = []
    total = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body = message.get("body", b"")
        if body:
            total += len(body)
            if total > limit_bytes:
                raise Refused(too_large(limit_bytes))
            parts.append(body)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def too_large(limit_bytes: int) -> Failure:
    return Failure("request_too_large", f"The request body is larger than limits.request_bytes ({limit_bytes} bytes).")


def plain(body: bytes, fields: Fields, limit_bytes: int) -> bytes:
    """The body without its content-encoding."""
    for coding in reversed(codings(first(fields, b"content-encoding"))):
        if coding not in KNOWN:
            name = coding.decode("latin-1")[:40]
            raise Refused(Failure("unsupported_encoding", f"The request body's content-encoding {name!r} is not known. Send it plain."))
        try:
            body = Decompressor(coding, limit_bytes).feed(body)
        except CodingError as error:
            raise Refused(Failure("invalid_request", f"The request cannot be read: {error}.")) from None
    return body


def understand(body: bytes, fields: Fields, limit_bytes: int) -> Ask:
    """What the body asks for. A body that is no JSON object asks for nothing of ours: the upstream will say what it thinks of it."""
    body = plain(body, fields, limit_bytes)
    try:
        found = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError):
        try:
            found = _read_oddly(body)
        except ValueError:
            return Ask()
    count = found.n if isinstance(found.n, int) and 0 < found.n <= CHOICES_AT_MOST else 1
    return Ask(
        model=found.model if isinstance(found.model, str) else None,
        stream=found.stream is True,
        choices=count * _prompts(bytes(found.prompt)),
        carried=found,
    )


def _read_oddly(body: bytes) -> _Fields:
    """A body that msgspec refuses: a prompt with half a surrogate pair, as JavaScript sends it, or NaN. ValueError where it is no JSON."""
    top = jsontext.members(body)
    raw = {name: msgspec.Raw(top[name]) for name in ("extra_body", "prompt") if name in top}
    rest = {name: jsontext.value(top[name]) for name in _Fields.__struct_fields__ if name in top and name not in raw}
    return _Fields(**raw, **rest)


def _prompts(raw: bytes) -> int:
    """How many prompts a legacy completion holds: a list of strings or of token lists, else one."""
    if not raw.startswith(b"["):
        return 1
    try:
        prompts = msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return 1
    if not prompts or bytes(prompts[0])[:1] not in (b'"', b"["):
        return 1
    return min(len(prompts), CHOICES_AT_MOST)
