"""Streams whose protocol is not known here are read as the standard says, with none of the leniency that JSON protocols need."""

from __future__ import annotations

import pytest

from gateway.wire.sse import Decoder


def read(data: bytes) -> list[tuple[bytes | None, bytes]]:
    return [(event.name, event.data) for event in Decoder(2**20, lenient=False).feed(data)]


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (b"data: \ndata: \n\n", [(None, b"\n")]),  # a token that is a line break
        (b"data:\ndata: b\n\n", [(None, b"\nb")]),
        (b'event: two\ndata: {"a":1}\ndata: {"b":2}\n\n', [(b"two", b'{"a":1}\n{"b":2}')]),
        (b'{"a":1}\n\n', []),
        (b"data:\n\n", []),
        (b": only a comment\n\n", []),
        (b"data: a\nid: 7\nretry: 5\n\n", [(None, b"a")]),
    ],
)
def test_only_what_the_standard_says_is_done(sent: bytes, seen: list[tuple[bytes | None, bytes]]) -> None:
    assert read(sent) == seen


def test_what_is_sent_on_says_the_same_again() -> None:
    [event] = Decoder(2**20, lenient=False).feed(b"event: e\ndata: \ndata: x\n\n")
    assert read(event.raw) == [(b"e", b"\nx")]
