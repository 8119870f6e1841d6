"""The shells around the pacer: bounds, pages and frames keep order and text, and hold no longer than they say."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pacing.pacer import Pacer, Unpaced
from gateway.piece import Kind, Piece
from gateway.policy.controls import Paging
from gateway.policy.holding import Bounded, Framed, Paged, Releases
from gateway.settings import Pacing

TICK_S = 0.021


def words(kind: Kind, text: bytes) -> Piece:
    """A piece whose text is its bytes, a character a token, cut anywhere."""

    def cut(tokens: float) -> tuple[Piece, Piece] | None:
        at = max(1, int(tokens))
        return (words(kind, text[:at]), words(kind, text[at:])) if at < len(text) else None

    return Piece(kind, float(len(text)), text, cut if len(text) > 1 else None)


def run(pacer: Releases, script: list[tuple[float, list[Piece]]], *, after_s: float = 5.0) -> list[tuple[float, bytes]]:
    """Pushes at the script's times, asks each tick and at each push; frames with their times."""
    frames: list[tuple[float, bytes]] = []
    now, at = 0.0, 0
    end = (script[-1][0] if script else 0.0) + after_s
    ended = False
    while now <= end and not (ended and pacer.empty):
        while at < len(script) and script[at][0] <= now:
            for piece in script[at][1]:
                pacer.push(now, piece)
            at += 1
        if at == len(script) and not ended:
            pacer.end(now)
            ended = True
        while pieces := pacer.due(now):
            frames.append((now, b"".join(piece.data for piece in pieces)))
            if not isinstance(pacer, Framed):
                break
        now += TICK_S
    assert pacer.empty
    assert pacer.held_bytes == 0
    assert pacer.backlog_tokens == pytest.approx(0.0)
    return frames


def smooth() -> Pacer:
    return Pacer(Pacing())


MAKERS: dict[str, Callable[[], Releases]] = {
    "bounded": lambda: Bounded(smooth(), 5.0),
    "nothing held": lambda: Bounded(smooth(), 0.0),
    "paged": lambda: Paged(smooth(), Paging(10, 0.1), 2.5),
    "paged, no pause": lambda: Paged(smooth(), Paging(1, 0.0), 2.5),
    "framed": lambda: Framed(smooth(), 3),
    "all": lambda: Framed(Paged(Bounded(smooth(), 20.0), Paging(7, 0.05), 2.5), 2),
    "framed and raw": lambda: Framed(Unpaced(), 1),
}
PIECES = st.builds(
    lambda kind, size: words(kind, b"x" * size) if kind is not Kind.STRUCTURE else Piece(kind, 0.0, b"{}"),
    st.sampled_from(list(Kind)),
    st.integers(1, 60),
)
SCRIPTS = st.lists(st.tuples(st.floats(0, 2), st.lists(PIECES, min_size=1, max_size=4)), min_size=1, max_size=8).map(
    lambda script: sorted(script, key=lambda step: step[0])
)


@given(SCRIPTS, st.sampled_from(sorted(MAKERS)))
def test_nothing_is_lost_doubled_or_reordered(script: list[tuple[float, list[Piece]]], name: str) -> None:
    sent = b"".join(piece.data for _, pieces in script for piece in pieces)
    marked = [(at, [words(p.kind, p.data) if p.weight else p for p in pieces]) for at, pieces in script]
    assert b"".join(data for _, data in run(MAKERS[name](), marked, after_s=30.0)) == sent


@given(SCRIPTS)
def test_reasoning_above_the_bound_leaves_at_once(script: list[tuple[float, list[Piece]]]) -> None:
    pacer = Bounded(smooth(), 5.0)
    held = 0.0
    for at, pieces in script:
        only = [piece for piece in pieces if piece.kind is Kind.REASONING]
        for piece in only:
            pacer.push(at, piece)
            held += piece.weight
        if only:
            held -= sum(piece.weight for piece in pacer.due(at))
            assert held <= 5.0 + 0.5


def test_the_answer_is_paced_whatever_bound_reasoning_has() -> None:
    answer = [(1.0, [words(Kind.CONTENT, b"a" * 100)])]
    bound = run(Bounded(smooth(), 0.0), [(0.0, [words(Kind.REASONING, b"r" * 100)]), *answer])
    assert bound[0] == (0.0, b"r" * 100)
    assert len([data for _, data in bound if b"a" in data]) > 5


def test_pages_are_full_and_a_pause_apart() -> None:
    pages = run(Paged(smooth(), Paging(10, 0.1), 2.5), [(0.0, [words(Kind.REASONING, b"r" * 35)])])
    assert [len(data) for _, data in pages] == [10, 10, 10, 5]
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(pages)]
    assert all(0.1 <= gap < 0.1 + 2 * TICK_S for gap in gaps)


def test_the_first_page_leaves_at_once_and_no_token_waits_longer_than_reasoning_may() -> None:
    script: list[tuple[float, list[Piece]]] = [(at * 0.5, [words(Kind.REASONING, b"r")]) for at in range(20)]
    pages = run(Paged(smooth(), Paging(240, 0.08), 2.5), script)
    assert pages[0] == (0.0, b"r")
    out = [at for at, data in pages for _ in data]
    assert all(left - came <= 2.5 + 2 * TICK_S for left, (came, _) in zip(out, script, strict=True))
    assert len(pages) < len(script) / 2


def test_the_answer_follows_the_last_page_and_is_paced() -> None:
    script: list[tuple[float, list[Piece]]] = [(0.0, [words(Kind.REASONING, b"r" * 30), words(Kind.CONTENT, b"a" * 100)])]
    frames = run(Paged(smooth(), Paging(10, 0.08), 2.5), script)
    assert [data for _, data in frames[:3]] == [b"r" * 10] * 3
    assert frames[3][0] <= 0.16 + 2 * TICK_S
    assert len(frames) > 8


def test_frames_hold_no_more_tokens_than_was_asked() -> None:
    burst = [words(Kind.CONTENT, b"a" * 50), Piece(Kind.STRUCTURE, 0.0, b""), *(words(Kind.CONTENT, b"b") for _ in range(9))]
    for most in (1, 3, 8):
        frames = run(Framed(Unpaced(), most), [(0.0, list(burst))])
        assert max(len(data) for _, data in frames) == most
        assert {at for at, _ in frames} == {0.0}


def test_a_small_token_is_a_token() -> None:
    halves: list[Piece] = [Piece(Kind.CONTENT, 0.25, b".") for _ in range(4)]
    assert [data for _, data in run(Framed(Unpaced(), 1), [(0.0, halves)])] == [b"."] * 4


def test_what_is_taken_back_is_everything_in_order() -> None:
    pacer = MAKERS["all"]()
    pieces: list[Piece] = [words(kind, text) for kind, text in ((Kind.CONTENT, b"aaa"), (Kind.REASONING, b"rrr"), (Kind.CONTENT, b"bbb"))]
    for piece in pieces:
        pacer.push(0.0, piece)
    first = b"".join(piece.data for piece in pacer.due(0.0))
    assert first + b"".join(piece.data for piece in pacer.flush()) == b"aaarrrbbb"
    assert pacer.empty
