"""Laws of the pacer, over random arrivals of random kinds and weights, with a timer that is late at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.pacing.horizon import Horizon
from gateway.pacing.optimum import promised
from gateway.pacing.pacer import Pacer
from gateway.pacing.run import runs as joined_to_runs
from gateway.piece import Kind, Piece
from gateway.settings import Pacing

from .offline import text_piece

PACING = Pacing()
TEXT = (Kind.CONTENT, Kind.REASONING, Kind.TOOL)
TICK_LATE_S = 0.015  # at the worst
WINDOW_S = 0.0595  # three frames of 20 ms, but for what a timer is inexact
UNFORESEEN_S = 0.020  # by which a deadline may be missed: what a tick is late by, and the corner of a majorant
WORDS = [" a", " word", " parsers", ".", "流", " e\u0301", "🇫🇷", " 👨\u200d👩\u200d👧"]

# (ms since the arrival before, kind, words, may be cut). Silences, clumps, steps of a steady stream, and events at the same moment.
gaps = st.sampled_from([0, 0, 0, 0, 0, 1, 3, 5, 5, 20, 40, 60, 300, 700, 1500, 3000])
sizes = st.sampled_from([0, 1, 1, 1, 1, 2, 5, 12, 24, 60, 150, 400])
kinds = st.sampled_from([*TEXT, Kind.CONTENT, Kind.CONTENT, Kind.REASONING, Kind.STRUCTURE])
events = st.lists(st.tuples(gaps, kinds, sizes, st.sampled_from([True, True, True, False])), min_size=1, max_size=60)
endings = st.sampled_from([0.0, 0.0, 0.05, 0.3, None])
seeds = st.integers(0, 10**6)


class Run:
    """A play: what was pushed when, and the frames that came out."""

    def __init__(self, steps: Sequence[tuple[int, Kind, int, bool]], seed: int, done_s: float | None, tick_s: float = 0.020) -> None:
        self.rng = random.Random(seed)
        self.pacer = Pacer(PACING, Horizon())
        self.pushed: list[tuple[float, Piece]] = []
        self.frames: list[tuple[float, list[Piece]]] = []
        self._tick_s = tick_s
        at = 100.0
        self._tick = at + self.rng.random() * tick_s
        timed = []
        for gap, kind, size, cuts in steps:
            at += gap / 1e3
            timed.append((at, self._piece(kind, size, cuts)))
        for moment, group in groupby(timed, key=lambda pair: pair[0]):
            self._until(moment)
            came = [piece for _, piece in group]
            self.pushed += [(moment, piece) for piece in came]
            for piece in joined_to_runs(came):
                self.pacer.push(moment, piece)
            self._ask(moment)
        self.ended_at = None if done_s is None else at + done_s
        if done_s is not None:
            self._until(at + done_s)
            self.pacer.end(at + done_s)
            self._ask(at + done_s)
        self._until(at + 10.0)

    def _piece(self, kind: Kind, size: int, cuts: bool) -> Piece:
        if kind is Kind.STRUCTURE:
            return Piece(kind, 0.0, b"<%d>" % self.rng.randrange(10**6))
        piece = text_piece("".join(self.rng.choice(WORDS) for _ in range(size)), kind, joined=self.rng.random() < 0.05)
        if not cuts and piece.weight < PACING.ceiling_tokens:
            return Piece(kind, piece.weight, piece.data, None, piece.joined)
        return piece

    def _until(self, moment: float) -> None:
        while self._tick < moment:
            if not self.pacer.empty:
                self._ask(self._tick)
            self._tick += self._tick_s + self.rng.random() * TICK_LATE_S

    def _ask(self, now: float) -> None:
        frame = self.pacer.due(now)
        if frame:
            self.frames.append((now, frame))

    @property
    def arrivals(self) -> list[tuple[float, float, Kind]]:
        return [(at, piece.weight, piece.kind) for at, piece in self.pushed if piece.kind is not Kind.STRUCTURE]


runs = st.builds(Run, events, seeds, endings)


@given(runs)
@settings(deadline=None, max_examples=120)
def test_everything_comes_out_once_and_in_order(run: Run) -> None:
    assert run.pacer.empty
    assert b"".join(p.data for _, frame in run.frames for p in frame) == b"".join(p.data for _, p in run.pushed)
    assert run.pacer.held_bytes == 0
    assert run.pacer.backlog_tokens == 0.0


@given(runs)
@settings(deadline=None, max_examples=300)
def test_the_promise_is_kept(run: Run) -> None:
    arrivals = run.arrivals
    if not arrivals:
        return
    # An end that is told later than promised cannot have been foreseen; then everything is due at once.
    told = float("inf") if run.ended_at is None else run.ended_at - arrivals[-1][0]
    due = promised(arrivals, Pacing(end=max(PACING.end, told)))
    out = 0.0
    delivered = [(at, piece.weight) for at, frame in run.frames for piece in frame]
    owed = 0.0
    for deadline, tokens in due:
        owed += tokens
        while delivered and delivered[0][0] <= deadline + UNFORESEEN_S:
            out += delivered.pop(0)[1]
        assert out >= owed - 1e-6


@given(runs)
@settings(deadline=None, max_examples=120)
def test_what_breaks_the_ceiling_is_counted_and_comes_of_the_promise(run: Run) -> None:
    recent: list[tuple[float, float]] = []
    broken = False
    heaviest = max((p.weight for _, p in run.pushed if not p.cuttable), default=0.0)
    for at, frame in run.frames:
        recent = [(then, tokens) for then, tokens in recent if at - then < WINDOW_S]
        recent.append((at, sum(piece.weight for piece in frame)))
        broken |= sum(tokens for _, tokens in recent) > PACING.ceiling_tokens + max(2.0, heaviest)
    assert not broken or run.pacer.deadline_releases > 0


@given(runs)
@settings(deadline=None, max_examples=80)
def test_the_first_token_leaves_at_once(run: Run) -> None:
    first = next((at for at, piece in run.pushed if piece.weight), None)
    if first is not None:
        assert any(at == first and any(piece.weight for piece in frame) for at, frame in run.frames)


@given(runs)
@settings(deadline=None, max_examples=80)
def test_no_frame_begins_with_what_could_have_left_before(run: Run) -> None:
    """Neither structure behind text that has left nor the continuation of a grapheme waits for a frame of its own."""
    came = iter(run.pushed)
    before = 0.0
    for at, frame in run.frames:
        first = frame[0]
        if first.kind is Kind.STRUCTURE or (first.joined and first.weight):
            arrived = next((moment for moment, piece in came if piece is first), None)
            if arrived is not None and first.kind is Kind.STRUCTURE:
                assert arrived > before
        before = at


bursts = st.lists(st.tuples(st.integers(400, 1200), st.just(Kind.CONTENT), st.integers(1, 20), st.just(True)), min_size=1, max_size=30)


@given(st.builds(Run, bursts, seeds, st.just(0.0)))
@settings(deadline=None, max_examples=80)
def test_the_ceiling_holds_where_the_promise_leaves_room(run: Run) -> None:
    assert run.pacer.deadline_releases == 0
    weights = [(at, sum(p.weight for p in frame)) for at, frame in run.frames]
    for i, (at, _) in enumerate(weights):
        assert sum(w for then, w in weights[: i + 1] if at - then < WINDOW_S) <= PACING.ceiling_tokens + 1.0


steady = st.lists(st.tuples(st.integers(3, 35), st.just(Kind.CONTENT), st.just(1), st.just(True)), min_size=1, max_size=200)


@given(st.builds(Run, steady, seeds, st.just(0.0)))
@settings(deadline=None, max_examples=40)
def test_a_steady_stream_is_delayed_by_its_reserve_at_the_most(run: Run) -> None:
    """Which is 18 ms of text, until the next arrives; what is delayed more had met the ceiling."""
    left = [at for at, frame in run.frames for _ in frame]
    waits = [at - came for at, (came, _) in zip(left, run.pushed, strict=True)]
    assert sum(wait > 0.018 + 0.035 for wait in waits) <= len(waits) * 0.1
    assert max(waits) < 0.13


slow = st.lists(st.tuples(st.integers(16, 35), st.just(Kind.CONTENT), st.just(1), st.just(True)), min_size=1, max_size=200)


@given(st.builds(Run, slow, seeds, st.just(0.0)).filter(lambda run: sum(n for _, n, _ in run.arrivals) < 1.2 * len(run.arrivals)))
@settings(deadline=None, max_examples=40)
def test_a_slow_stream_keeps_nothing_back(run: Run) -> None:
    left = [at for at, frame in run.frames for _ in frame]
    waits = [at - came for at, (came, _) in zip(left, run.pushed, strict=True)]
    assert sum(wait > 0.0 for wait in waits) <= len(waits) * 0.15
