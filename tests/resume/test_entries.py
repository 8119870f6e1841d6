"""Entries: events with their numbers, comments that travel with the next event, and an event read back."""

from __future__ import annotations

import pytest

from gateway.journal.entries import event_of, numbered, sequence_of, with_number
from support import sse

FRAME = b'data: {"a":1}\n\nevent: x\ndata: one\ndata: two\n\ndata: [DONE]\n\n'


def test_each_event_has_a_line_with_its_number_first() -> None:
    entries, rest = numbered(FRAME, 7, b"")
    assert entries == [b'id: 7\ndata: {"a":1}\n\n', b"id: 8\nevent: x\ndata: one\ndata: two\n\n", b"id: 9\ndata: [DONE]\n\n"]
    assert rest == b""


def test_the_events_are_those_of_the_frame() -> None:
    entries, _ = numbered(FRAME, 1, b"")
    events, _, left = sse.read(b"".join(entries))
    assert [(event.name, event.data) for event in events] == [("", '{"a":1}'), ("x", "one\ntwo"), ("", "[DONE]")]
    assert left == b""


def test_a_comment_stands_in_the_block_of_the_event_that_follows_it() -> None:
    entries, rest = numbered(b": told\n\ndata: 1\n\n: last\n\n", 1, b"")
    assert entries == [b": told\nid: 1\ndata: 1\n\n"]
    assert rest == b": last\n"
    assert numbered(b"data: 2\n\n", 2, rest)[0] == [b": last\nid: 2\ndata: 2\n\n"]


@pytest.mark.parametrize("entry", numbered(b": told\n\n" + FRAME, 1, b"")[0])
def test_an_event_is_read_back_without_its_number_and_its_comments(entry: bytes) -> None:
    event = event_of(entry)
    assert event.raw in FRAME
    assert with_number(event.raw, 5).startswith(b"id: 5\n")


def test_a_sequence_number_is_a_member_and_no_text() -> None:
    assert sequence_of(b'id: 1\ndata: {"type":"x","sequence_number": 12}\n\n') == 12
    assert sequence_of(b'id: 1\ndata: {"delta":"\\"sequence_number\\": 3"}\n\n') is None
