"""Server-sent events, byte by byte: what comes out, that the cuts do not matter, and what it costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.wire import sse
from gateway.wire.sse import COMMENT_HEARTBEAT, Decoder, Event, render
from support import sse as strict
from support.cuts import cut, cuts

LIMIT = 2**20
Triple = tuple[bytes | None, bytes, bytes]


def decoded(*pieces: bytes, limit: int = LIMIT) -> list[Triple]:
    decoder = Decoder(limit)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return [(event.name, event.data, event.raw) for event in [*events, *decoder.close()]]


def said(stream: bytes) -> list[tuple[bytes | None, bytes]]:
    return [(name, data) for name, data, _ in decoded(stream)]


EXAMPLES: dict[str, tuple[bytes, list[tuple[bytes | None, bytes]]]] = {
    "one event": (b"data: a\n\n", [(None, b"a")]),
    "a name": (b"event: x\ndata: a\n\n", [(b"x", b"a")]),
    "a name after the data": (b"data: a\nevent: x\n\n", [(b"x", b"a")]),
    "an empty name is none": (b"event: \ndata: a\n\nevent:\ndata: b\n\n", [(None, b"a"), (None, b"b")]),
    "two events in one read": (b"data: a\n\ndata: b\n\n", [(None, b"a"), (None, b"b")]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [(None, b"a"), (None, b"b")]),
    "CR alone": (b"data: a\r\rdata: b\r\r", [(None, b"a"), (None, b"b")]),
    "line ends mixed": (b"data: a\r\n\ndata: b\n\rdata: c\r\r\ndata: d\n\n", [(None, b"a"), (None, b"b"), (None, b"c"), (None, b"d")]),
    "more blank lines than needed": (b"\n\ndata: a\n\n\n\n\ndata: b\n\n", [(None, b"a"), (None, b"b")]),
    "a byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [(None, b"a")]),
    "only the first byte order mark is one": (b"\xef\xbb\xbfdata: \xef\xbb\xbfa\n\n", [(None, b"\xef\xbb\xbfa")]),
    "no blank after the colon": (b"data:a\n\n", [(None, b"a")]),
    "one blank after the colon is no data": (b"data:  a\n\n", [(None, b" a")]),
    "a tab after the colon is data": (b"data:\ta\n\n", [(None, b"\ta")]),
    "several lines": (b"data: {\ndata: }\n\n", [(None, b"{\n}")]),
    "several lines that are no JSON": (b"data: a\ndata: b\n\n", [(None, b"a\nb")]),
    "a comment": (b": a comment\n\n", []),
    "a comment inside an event": (b": x\ndata: a\n: y\n\n", [(None, b"a")]),
    "a comment glued to the next event": (b": x\n\ndata: a\n\n", [(None, b"a")]),
    "id and retry": (b"id: 1\nretry: 5\ndata: a\n\nid: 2\n\nretry: 3\n\n", [(None, b"a")]),
    "empty data": (b"data:\n\ndata: \n\ndata\n\ndata: a\n\n", [(None, b"a")]),
    "similar names": (b"Data: a\n data: b\ndata2: c\ndatax\nxdata: d\ndata: e\n\n", [(None, b"e")]),
    "a name without data": (b"event: x\n\ndata: a\n\n", [(None, b"a")]),
    "colons in the data": (b"data: a: b:c\n\n", [(None, b"a: b:c")]),
    "U+2028, NEL and form feed are no line ends": ("data: a\u2028b\x85c\x0cd\n\n".encode(), [(None, "a\u2028b\x85c\x0cd".encode())]),
    "bytes that are no UTF-8": (b"data: a\xff\xe4\xbdb\n\n", [(None, "a\ufffd\ufffdb".encode())]),
    "halves of a pair as bytes": (b'data: "\xed\xa0\xbd\xed\xba\x80"\n\n', [(None, rb'"\ud83d\ude80"')]),
    "no blank line at the end": (b"data: a\n\ndata: b", [(None, b"a"), (None, b"b")]),
    "one line end at the end": (b"event: x\ndata: b\n", [(b"x", b"b")]),
    "a CR at the end": (b"data: b\r\n\r", [(None, b"b")]),
    # The lenient part: only where the strict reading would be no JSON.
    "events without blank lines": (
        b'data: {"a":1}\ndata: {"b":2}\ndata: [DONE]\n\n',
        [(None, b'{"a":1}'), (None, b'{"b":2}'), (None, b"[DONE]")],
    ),
    "named events without blank lines": (
        b'event: x\ndata: {"a":1}\nevent: y\ndata: {"b":2}\n\n',
        [(b"x", b'{"a":1}'), (b"y", b'{"b":2}')],
    ),
    "JSON that lost its field name": (b'data:\n {"a":1}\n\n{"b":2}\n\n', [(None, b'{"a":1}'), (None, b'{"b":2}')]),
    "JSON over several lines without a field name": (
        b'data: {"a":1}\n\n{\n  "error": {\n    "data": "x",\n    "code": 5\n  }\n}\ndata: {"b":2}\n\n',
        [(None, b'{"a":1}'), (None, b'{\n"error": {\n"data": "x",\n"code": 5\n}\n}'), (None, b'{"b":2}')],
    ),
    "JSON over several lines with one field name": (b'data: {\n  "a": [\n    1\n  ]\n}\n\n', [(None, b'{\n"a": [\n1\n]\n}')]),
    "a list without a field name": (b'[{\n  "error": {}\n}\n]\n', [(None, b'[{\n"error": {}\n}\n]')]),
    "an unknown field behind JSON": (b'data: {"a":1}\nnote: {"b":2}\n{"c":3}\nnote: x\n\n', [(None, b'{"a":1}'), (None, b'{"c":3}')]),
    "a word in brackets without a field name": (b'data: {"a":1}\n[INFO]\n\n', [(None, b'{"a":1}')]),
    "an error as a field": (b'data: {"a":1}\nerror: {"b":2}\n\nerror: x\n\n', [(None, b'{"a":1}'), (b"error", b'{"b":2}')]),
    "JSON over lines that begin like objects": (b'data: [{"a":1},\ndata: {"b":2}]\n\n', [(None, b'[{"a":1},\n{"b":2}]')]),
    "a name between the lines of one object": (b'data: {"a":\nevent: x\ndata: 1}\n\n', [(b"x", b'{"a":\n1}')]),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_stream_says(example: tuple[bytes, list[tuple[bytes | None, bytes]]]) -> None:
    stream, expected = example
    assert said(stream) == expected


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_bytes_one_by_one_say_the_same(example: tuple[bytes, list[tuple[bytes | None, bytes]]]) -> None:
    stream, _ = example
    assert decoded(*(stream[at : at + 1] for at in range(len(stream)))) == decoded(stream)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_what_goes_on_is_read_the_same_by_a_strict_client(example: tuple[bytes, list[tuple[bytes | None, bytes]]]) -> None:
    stream, expected = example
    if any(b"\xff" in data for _, data in expected):
        return  # a strict client reads UTF-8 only
    again, comments, rest = strict.read(b"".join(raw for _, _, raw in decoded(stream)))
    assert [(event.name.encode() or None, event.data.encode()) for event in again] == expected
    assert not comments
    assert not rest


def test_event_that_is_simple_keeps_its_bytes() -> None:
    stream = b'data: {"a": 1.0}\n\nevent: x\ndata: {"b":\t2}\n\n'
    assert b"".join(raw for _, _, raw in decoded(stream)) == stream


# What servers send, and what no server should
_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
_LINES = st.sampled_from(
    [
        b"", b"data: a", b"data:b", b"data", b"data: ", b"event: x", b"event", b": c", b":", b"id: 1", b"retry: 9", b"data: {",
        b'data: "a":1}', b'data: {"a":1}', b'{"b":2}', b"data: [DONE]", b"data: }", b"junk", b"\xef\xbb\xbf",
        "data: \u2028ü".encode(), b" data: x",
    ]
)  # fmt: skip
_STREAMS = st.builds(
    lambda bom, lines, rest: (b"\xef\xbb\xbf" if bom else b"") + b"".join(a + b for a, b in lines) + rest,
    st.booleans(),
    st.lists(st.tuples(_LINES, _ENDS), max_size=12),
    st.sampled_from([b"", b"data: end", b"\xef", b"\xef\xbb", b"data: {}\n"]),
)
_NOISE = st.binary(max_size=40).map(lambda data: data.translate(bytes(b"\n\rdat:{} "[byte % 9] for byte in range(256))))


@given(st.one_of(_STREAMS, _NOISE), cuts())
@example(b"\xef\xbb\xbfdata: a\r\n\r\n", [1, 2, 3, 10, 11, 12, 13])
@example(b"data: a\r\r\n\r\ndata: b\n\r\n", list(range(30)))
def test_where_the_bytes_are_cut_does_not_matter(stream: bytes, places: list[int]) -> None:
    assert decoded(*cut(stream, places)) == decoded(stream)


def _block(name: str | None, value: Any, indent: int | None, extra: bytes, end: bytes) -> bytes:
    lines = [extra] if extra else []
    lines += [b"event: " + name.encode()] if name else []
    lines += [b"data: " + line.encode() for line in json.dumps(value, indent=indent, ensure_ascii=False).split("\n")]
    return b"".join(line + end for line in [*lines, b""])


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_BLOCKS = st.builds(
    _block,
    st.sampled_from([None, "x", "response.created"]),
    st.dictionaries(st.text(max_size=3), _VALUES, max_size=4),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([b"", b": comment", b"id: 7", b"retry: 100"]),
    _ENDS,
)


@given(st.lists(_BLOCKS, max_size=5), cuts())
def test_json_events_are_what_the_specification_says(blocks: list[bytes], places: list[int]) -> None:
    """The lenient readings never touch a stream that is right."""
    stream = b"".join(blocks)
    expected = [(event.name or None, event.data) for event in strict.read(stream)[0]]
    found = decoded(*cut(stream, places))
    assert [(name.decode() if name else None, data.decode()) for name, data, _ in found] == expected
    assert all(raw.endswith(b"\n\n") and b"\r" not in raw for _, _, raw in found)


@given(st.text(st.characters(codec="utf-8"), max_size=200), st.sampled_from([None, b"x"]))
def test_what_is_rendered_reads_as_it_was(text: str, name: bytes | None) -> None:
    data = text.encode().replace(b"\r", b"").strip(b"\n") or b"a"
    if b"\n" in data and (b"{" in data or b"[" in data):
        return  # the lenient reading may see several events; what we render is one line of JSON
    assert decoded(render(data, name))[0][:2] == (name, data)


def test_a_heartbeat_of_ours_is_no_event() -> None:
    assert decoded(COMMENT_HEARTBEAT) == []


# Life


def test_comments_and_blank_lines_are_no_sign_of_life() -> None:
    decoder = Decoder(LIMIT)
    for silent in (b": ping\n\n", b"\n\n", b": a", b"b\n", b"\n", b"\r\n", b""):
        decoder.feed(silent)
        assert not decoder.progressed, silent


def test_part_of_an_event_is_a_sign_of_life() -> None:
    decoder = Decoder(LIMIT)
    for alive in (b"da", b'ta: {"a', b'":1}\n', b"\n"):
        decoder.feed(alive)
        assert decoder.progressed, alive
    decoder.feed(b": a comment\n\ndata: {")
    assert decoder.progressed
    decoder.feed(b"}")
    assert decoder.progressed


def test_part_of_an_event_behind_a_comment_is_a_sign_of_life() -> None:
    decoder = Decoder(LIMIT)
    decoder.feed(b": a comment\n")
    assert not decoder.progressed
    for alive in (b"data", b": {", b"}"):
        decoder.feed(alive)
        assert decoder.progressed, alive


# Bounds and cost


def test_an_event_of_the_limit_passes_and_a_larger_one_overflows() -> None:
    whole = b"data: " + b"x" * 994 + b"\n\n"
    pieces = [whole[at : at + 10] for at in range(0, len(whole), 10)]
    assert decoded(*pieces, limit=1000)[0][1] == b"x" * 994
    decoder = Decoder(999)
    for piece in pieces:
        assert decoder.feed(piece) == []
        if decoder.overflowed:
            break
    assert decoder.overflowed
    assert decoder.feed(b"data: more\n\n") == []
    assert decoder.close() == []


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60))
def test_no_more_is_held_than_the_limit_and_one_read(sizes: list[int]) -> None:
    decoder = Decoder(500)
    for size in sizes:
        decoder.feed(b"x" * size)
        assert len(decoder._buffer) <= 500 + size
        if decoder.overflowed:
            break
    assert decoder.overflowed == (sum(sizes) > 500)


class Counting(bytearray):
    """Counts the bytes that are looked at or copied."""

    looked_at = 0

    def rfind(self, sub: Any, start: Any = 0, end: Any = None) -> int:
        self.looked_at += len(self) - start
        return super().rfind(sub, start)

    def find(self, sub: Any, start: Any = 0, end: Any = None) -> int:
        self.looked_at += len(self) - start
        return super().find(sub, start)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        self.looked_at += len(found) if isinstance(found, (bytes, bytearray)) else 1
        return found

    def startswith(self, *prefix: Any) -> bool:
        self.looked_at += 1
        return super().startswith(*prefix)


@pytest.mark.parametrize("step", [1, 7, 97])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_each_byte_is_looked_at_a_bounded_number_of_times(step: int, ending: bytes) -> None:
    """However small the reads: a large event in drips must not cost its square."""
    stream = (b"data: " + b"x" * 60_000 + ending * 2) + (b": comment" + ending) * 500 + b"data: y" + ending * 2
    decoder = Decoder(LIMIT)
    decoder._buffer = counting = Counting()
    found = [event for at in range(0, len(stream), step) for event in decoder.feed(stream[at : at + step])]
    assert [len(event.data) for event in found] == [60_000, 1]
    assert counting.looked_at <= 5 * len(stream)


@pytest.mark.parametrize("line", [b"data: {}\n", b'event: x\ndata: "}"\n', b"{}\n", b"data: }\ndata: [\n"])
def test_lenient_reading_costs_no_square_of_the_lines(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0

    def counting(data: bytes) -> bool:
        nonlocal looked_at
        looked_at += len(data)
        return is_object(data)

    is_object = sse.is_object
    monkeypatch.setattr(sse, "is_object", counting)
    stream = b'data: {"a":[\n' + line * 2000 + b"\n"
    decoded(stream)
    assert looked_at <= 5 * len(stream)


def test_text_stays_out_of_what_is_logged() -> None:
    assert repr(Event(b"x", b"secret", b"data: secret\n\n")) == "Event(b'x', 6 bytes)"
