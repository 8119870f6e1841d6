"""JSON whose bytes are kept: taken apart into its members' own bytes, and put together again.

A message that we change must not lose the digits of a number or the order of its keys, so objects are read as {key: raw bytes} and
written from the same bytes. msgspec does that in C; what it refuses but real servers send (NaN, Infinity, one half of a surrogate
pair) goes a slower way. Knows nothing of what the members mean.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

Members = dict[str, bytes]

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ANY: Final = msgspec.json.Decoder()
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_STRING_OR_NAN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b', re.DOTALL)
_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
CONTROL: Final = re.compile(rb"[\x00-\x1f]")


def is_object(data: bytes) -> bool:
    """Whether these bytes are one whole JSON object."""
    data = data.strip()
    if not (data.startswith(b"{") and data.endswith(b"}")):
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def members(data: bytes) -> Members:
    """The members of an object, in order, each value in its own bytes. ValueError where it is no object."""
    try:
        return {key: bytes(raw) for key, raw in _OBJECT.decode(data).items()}
    except msgspec.DecodeError:
        return {value(key): raw for key, raw in _pairs(data, b"{")}
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def elements(data: bytes) -> list[bytes]:
    """The elements of an array, each in its own bytes. ValueError where it is no array."""
    try:
        return [bytes(raw) for raw in _ARRAY.decode(data)]
    except msgspec.DecodeError:
        return [raw for _, raw in _pairs(data, b"[")]
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def value(data: bytes) -> Any:
    """The value that the bytes stand for; strings may hold half a surrogate pair. ValueError where it is no JSON."""
    try:
        return _ANY.decode(data)
    except (msgspec.DecodeError, RecursionError):
        try:
            return json.loads(data)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def quote(text: str) -> bytes:
    """A string as JSON. Characters stand as themselves, save halves of surrogate pairs, which only an escape can carry."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        pieces = _LONE_SURROGATE.split(text)
        halves = _LONE_SURROGATE.findall(text)
        out = msgspec.json.encode(pieces[0])[1:-1]
        for half, piece in zip(halves, pieces[1:], strict=True):
            out += b"\\u%04x" % ord(half) + msgspec.json.encode(piece)[1:-1]
        return b'"' + out + b'"'


def dump(value: Any) -> bytes:
    """Compact JSON of a value that we made ourselves."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a surrogate pair: only an escape can carry it
        return json.dumps(value, separators=(",", ":")).encode()


def join(items: Members) -> bytes:
    """An object of the members' own bytes."""
    return b"{" + b",".join(quote(key) + b":" + raw for key, raw in items.items()) + b"}"


def array(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def strict(data: bytes) -> bytes:
    """The same with NaN and the infinities, which are not JSON, as null. What stands inside strings is not touched."""
    if b"NaN" not in data and b"Infinity" not in data:
        return data
    return _STRING_OR_NAN.sub(lambda found: found[0] if found[0].startswith(b'"') else b"null", data)


def escaped(data: bytes) -> bytes:
    """The same with the control characters in strings as the escapes that JSON demands."""
    return _STRING.sub(lambda found: CONTROL.sub(lambda control: b"\\u%04x" % control[0][0], found[0]), data)


def one_line(data: bytes) -> bytes:
    """JSON that came over several lines on one: a line break in it is white space, or in a string one that should have been escaped."""
    return escaped(data).replace(b"\n", b" ") if b"\n" in data else data


def _pairs(data: bytes, opener: bytes) -> list[tuple[bytes, bytes]]:
    """(key, value) of an object, or (b"", value) of an array, for what msgspec refuses; checked as a whole by the json module."""
    if data.lstrip()[:1] != opener:
        raise ValueError("not an object" if opener == b"{" else "not an array")
    try:
        json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    found: list[tuple[bytes, bytes]] = []
    depth, key, start = 0, b"", -1
    for token in _TOKEN.finditer(data):
        text = token[0]
        if text in (b"{", b"["):
            depth += 1
            if depth == 2 and start < 0:
                start = token.start()
        elif text in (b"}", b"]"):
            depth -= 1
            if depth == 0 and start >= 0:
                found.append((key, data[start : token.start()].strip()))
        elif depth == 1 and text == b",":
            found.append((key, data[start : token.start()].strip()))
            start = -1
        elif depth == 1 and text == b":" and opener == b"{":
            key, start = data[start : token.start()].strip(), -1
        elif depth == 1 and start < 0:
            start = token.start()
    return found


def put(top: Members, path: list[str], raw: bytes) -> None:
    """A member, or a member of a member; what stands in the way and is no object is replaced."""
    name, *rest = path
    if rest:
        inner = members(top[name]) if top.get(name, b"").startswith(b"{") else {}
        put(inner, rest, raw)
        raw = join(inner)
    top[name] = raw
