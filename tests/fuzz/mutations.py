"""Bytes made wrong: by chance alone, so that a seed says it all."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

MOST_BYTES: Final = 8192  # of an input: what goes wrong goes wrong early, and small ones are fast

# What parsers trip over: ends, separators, numbers at the edges, halves of characters, deep nesting.
WORDS: Final = (
    b"\r", b"\n", b"\r\n", b"\n\n", b"\r\r", b"\x00", b"\xff", b"\xc0\xae", b"\xed\xa0\x80", b"\xe2\x80", b"\xef\xbb\xbf", b"\\ud83d", b"\\ude00",
    b"\\", b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b";", b"null", b"true", b"false", b"NaN", b"-Infinity", b"0", b"-1", b"1e999", b"1.0",
    b"9223372036854775808", b"18446744073709551616", b"-0", b"[" * 200, b'{"a":' * 200, b"data: ", b"data:", b"event: ", b"id: 1", b"retry: 1",
    b": ", b"[DONE]", b"data: [DONE]\n\n", b'"finish_reason":"stop"', b'"index":-1', b'"index":1e9', b'"delta":null', b'"choices":{}',
    b"<think>", b"</think>", b"<thi", b"event: error\n", b'{"error":{"message":"m"}}', b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n",
    b"0\r\n\r\n", b"ffffffffffffffff", b"HTTP/1.1 200 OK\r\n", b"GET /v1/models HTTP/1.1\r\n", b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
)  # fmt: skip
_NUMBER: Final = re.compile(rb"-?\d+")


def mutated(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One to eight changes."""
    out = bytearray(data)
    for _ in range(1 << chance.randrange(4)):
        _change(chance, out, others)
    return bytes(out[:MOST_BYTES])


def _change(chance: random.Random, out: bytearray, others: Sequence[bytes]) -> None:
    size = len(out)
    at = chance.randrange(size + 1)
    stop = min(size, at + 1 + chance.randrange(1 << chance.randrange(1, 8)))
    match chance.randrange(9):
        case 0:
            del out[at:stop]
        case 1:
            out[at:at] = chance.choice(WORDS)
        case 2:
            out[at:stop] = chance.choice(WORDS)
        case 3:
            if at < size:
                out[at] ^= 1 << chance.randrange(8)
        case 4:
            if at < size:
                out[at] = chance.randrange(256)
        case 5:
            out[at:at] = out[at:stop] * chance.choice((1, 2, 20))
        case 6:
            other = chance.choice(others)
            start = chance.randrange(len(other) + 1)
            out[at:stop] = other[start : start + (stop - at) * 4]
        case 7:
            numbers = list(_NUMBER.finditer(out, at))[:1]
            for found in numbers:
                out[found.start() : found.end()] = chance.choice(
                    (b"0", b"-1", b"1", b"2147483648", b"1e400", b"99999999999999999999", b"null", b'"7"')
                )
        case _:
            lines = bytes(out).split(b"\n")
            one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[one], lines[two] = lines[two], lines[one]
            out[:] = b"\n".join(lines)


def cuts(chance: random.Random, data: bytes) -> list[bytes]:
    """The data in reads: whole, in two to nine, or byte by byte where it is short."""
    if chance.random() < 0.3:
        return [data]
    if len(data) < 200 and chance.random() < 0.1:
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted(chance.randrange(len(data) + 1) for _ in range(1 << chance.randrange(4)))
    return [data[start:stop] for start, stop in zip([0, *places], [*places, len(data)], strict=True)]
