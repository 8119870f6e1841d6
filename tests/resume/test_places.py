"""Places: what a client gets of the entries from its place on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.cursors import content_of, units
from gateway.journal.entries import event_of, numbered
from gateway.journal.places import AfterContent, AfterEvent, AfterSequence, Place
from support.chunks import DONE, ROLE, STOP, chunk, compact
from support.plays import sse


def entries_of(*datas: str) -> list[bytes]:
    return numbered(sse(datas), 1, b"")[0]


def fed(place: Place, entries: list[bytes]) -> list[bytes]:
    return [got for number, entry in enumerate(entries, 1) if (got := place.take(number, entry))]


def text(entries: list[bytes]) -> str:
    return "".join(content_of("chat", event_of(entry).data) for entry in entries)


@given(st.integers(0, 9))
def test_after_an_event_come_those_with_higher_numbers(number: int) -> None:
    entries = entries_of(*map(chunk, "abcdefg"))
    place = AfterEvent(number)
    assert fed(place, entries) == entries[number:]
    assert place.reached == (number <= len(entries))


@given(st.lists(st.text(min_size=1, max_size=5), max_size=6), st.data())
def test_after_so_much_content_comes_the_rest_of_it_and_all_that_follows(texts: list[str], data: st.DataObject) -> None:
    entries = entries_of(ROLE, *map(chunk, texts), STOP, DONE)
    whole = "".join(texts)
    start = data.draw(st.integers(0, len(whole)))
    got = fed(AfterContent(units(whole[:start]), "chat"), entries)
    assert text(got) == whole[start:]
    assert got[-2:] == entries[-2:]
    assert [entry.split(b"\n")[0] for entry in got] == [entry.split(b"\n")[0] for entry in entries[len(entries) - len(got) :]]


def test_what_is_no_content_at_the_place_is_sent_again_rather_than_lost() -> None:
    entries = entries_of(chunk("ab"), chunk(reasoning_content="hm"), chunk("cd"), DONE)
    assert fed(AfterContent(2, "chat"), entries) == entries[1:]


def test_a_place_beyond_the_content_is_not_reached() -> None:
    place = AfterContent(3, "chat")
    assert fed(place, entries_of(chunk("ab"), DONE)) == []
    assert not place.reached


def test_after_a_sequence_number_come_events_with_higher_ones() -> None:
    numbers = [0, 1, 2, 5, 6]
    entries = entries_of(*(compact({"type": "x", "sequence_number": number}) for number in numbers))
    assert fed(AfterSequence(1), entries) == entries[2:]
    assert fed(AfterSequence(3), entries) == entries[3:]
    assert fed(AfterSequence(-1), entries) == entries
    beyond = AfterSequence(7)
    assert fed(beyond, entries) == []
    assert not beyond.reached
