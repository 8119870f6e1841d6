"""Reading many events at a time says the same as reading them one by one."""

from __future__ import annotations

import json
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects import Chat, Completions
from gateway.dialects.base import Dialect
from gateway.pacing.run import runs
from gateway.piece import Kind, Piece, Run
from gateway.stream.reading import read_events, read_whole
from gateway.wire.sse import Decoder

ROLE = (
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
)
WORDS = [
    " the", ",", "\n", "\r\n", "流", " Größe", "👩‍👩‍👧", "\u200d👧", "🇫", "🇷", "e", "\u0301t", '"', "\\", "</", "<", "think", ">", "<think>", "</think>", "`", "```",
    "\u2028", "\x7f", " implementation of the protocol", "",
]  # fmt: skip
FOREIGN = [
    b": a comment\n\n",
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n',
    b"data:\n\n",
    b"event: ping\ndata: {}\n\n",
]


def event(text: str, member: str = "content", index: int = 0, raw: bool = False, fingerprint: str = "f") -> bytes:
    data = {"id": "c", "object": "chat.completion.chunk", "model": "m", "system_fingerprint": fingerprint}
    data |= {"choices": [{"index": index, "delta": {member: text}, "finish_reason": None}]}  # type: ignore[dict-item]
    return b"data: " + json.dumps(data, ensure_ascii=raw, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n\n"


# A line break in the midst of the string: no JSON, however it looks.
BROKEN = event("AB").replace(b"AB", b"A\nB")
texts = st.builds(
    event,
    st.one_of(st.sampled_from(WORDS), st.text(max_size=6, alphabet=st.characters(exclude_categories=["Cs"]))),
    member=st.sampled_from(["content"] * 6 + ["reasoning_content"]),
    index=st.sampled_from([0] * 8 + [1]),
    raw=st.booleans(),
    fingerprint=st.sampled_from(["f"] * 9 + ["g"]),
)
reads = st.lists(
    st.lists(st.one_of(texts, texts, texts, texts, texts, st.sampled_from([*FOREIGN, BROKEN])), min_size=1, max_size=30),
    min_size=1,
    max_size=4,
)


def said(dialect: Dialect, parts: list[bytes], many: bool) -> list[Piece]:
    decoder = Decoder(2**24)
    out: list[Piece] = []
    for part in parts:
        whole = decoder.whole(part)
        read = read_whole(dialect, decoder, whole) if many else read_events(dialect, decoder.events_in(whole))
        out += read.pieces
    return out


def by_kind(pieces: list[Piece]) -> list[tuple[Kind, bytes, float]]:
    """Neighbours of one kind as one."""
    out = []
    for kind, group in groupby(pieces, key=lambda piece: piece.kind):
        same = list(group)
        out.append((kind, b"".join(piece.data for piece in same), pytest.approx(sum(piece.weight for piece in same))))
    return out


def borders(pieces: list[Piece]) -> list[bytes]:
    """All parts that the pieces can be taken apart into without cutting an event."""
    out: list[bytes] = []
    for piece in runs(pieces):
        while isinstance(piece, Run) and (head := piece.take(0.0)) is not None:
            out.append(head.data)
        out.append(piece.data)
    return out


@given(reads, st.sampled_from([Chat, Chat, Completions]))
@settings(deadline=None, max_examples=200)
def test_many_at_a_time_says_the_same_as_one_by_one(parts: list[list[bytes]], dialect: type[Dialect]) -> None:
    whole = [ROLE, *(b"".join(part) for part in parts)]
    one, many = said(dialect(), whole, False), said(dialect(), whole, True)
    assert by_kind(many) == by_kind(one)


@given(reads)
@settings(deadline=None, max_examples=100)
def test_it_is_cut_where_single_events_would_be(parts: list[list[bytes]]) -> None:
    whole = [ROLE, *(b"".join(part) for part in parts)]
    assert borders(said(Chat(), whole, True)) == borders(said(Chat(), whole, False))


@given(reads, st.integers(1, 400))
@settings(deadline=None, max_examples=100)
def test_where_the_bytes_are_cut_does_not_matter(parts: list[list[bytes]], step: int) -> None:
    data = b"".join([ROLE, *(b"".join(part) for part in parts)])
    cut = [data[at : at + step] for at in range(0, len(data), step)]
    assert by_kind(said(Chat(), cut, True)) == by_kind(said(Chat(), [data], False))


def test_a_burst_of_events_that_are_alike_is_one_piece() -> None:
    burst = b"".join(event(word) for word in [" the", ",", "\n", "流", " end"] * 50)
    pieces = said(Chat(), [ROLE + event(" first"), burst], True)
    assert [type(piece) for piece in pieces[2:]] == [Run]
    assert pieces[-1].data == burst


def test_a_text_that_only_looks_like_one_is_parsed() -> None:
    """What stands where the text was ends the string and says more."""
    odd = event("A").replace(b'"A"', b'"A","refusal":"no"')
    one, many = (said(Chat(), [ROLE + event(" first") + event(" second"), event(" x") + odd + event(" y")], many) for many in (False, True))
    assert by_kind(many) == by_kind(one)


def test_a_tag_within_a_burst_turns_what_follows_into_reasoning() -> None:
    burst = b"".join(event(word) for word in ["\n", "<think>", " I", " see", "</think>", " Yes"])
    pieces = said(Chat(), [ROLE + event("\n"), burst], True)
    assert [kind.name for kind, _, _ in by_kind(pieces)] == ["STRUCTURE", "CONTENT", "REASONING", "CONTENT"]


def test_usage_that_the_client_did_not_ask_for_leaves_a_burst_too() -> None:
    with_usage = [event(word).replace(b"]}\n\n", b'],"usage":null}\n\n') for word in [" the", " first", " words", "\n", "流"]]
    dialect = Chat()
    dialect.hides_usage = True
    pieces = said(dialect, [ROLE + with_usage[0], b"".join(with_usage)], True)
    assert len(pieces) == 3
    assert b'"usage"' not in pieces[-1].data
    assert pieces[-1].data.count(b"data: ") == 5


def test_an_event_of_a_run_that_is_too_heavy_is_cut_by_itself() -> None:
    heavy = " implementation of the whole protocol"
    pieces = said(Chat(), [ROLE + event(" first"), event(heavy) + event(" then")], True)
    run = pieces[-1]
    assert isinstance(run, Run)
    head = run.take(1.0)
    assert head is not None
    assert head.cuttable
    parts = head.cut(2.0)
    assert parts is not None
    assert "".join(json.loads(part.data[6:])["choices"][0]["delta"]["content"] for part in parts) == heavy


@pytest.mark.parametrize("together", [True, False], ids=["in one read", "in reads of their own"])
def test_an_event_in_which_both_ends_of_the_template_share_a_quote_is_read(together: bool) -> None:
    """Its string lacks its end, so that it is no JSON; cut out by the template it would have less than no text."""
    alike = event("hi")
    torn = alike.replace(b'"content":"hi"', b'"content":"')
    dialect = Chat()
    said(dialect, [ROLE + alike, *([alike + torn] if together else [alike, torn])], True)
    assert dialect.failure is not None
    assert dialect.failure.code == "upstream_bad_event"
