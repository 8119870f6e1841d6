"""When a token was due, and which came late, as the benchmark of scale judges it."""

from __future__ import annotations

from benchmarks.promise import TOLERANCE_NS, Promise, Write, deadlines, judge

PROMISE = Promise(content_s=1.0, reasoning_s=2.5, switch_s=0.5, end_s=0.5)


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def due_s(*writes: tuple[float, int, str]) -> list[float]:
    return [due / 1e9 for due in deadlines([Write(ns(at), tokens, kind) for at, tokens, kind in writes], PROMISE)]


def judged(writes: list[tuple[float, int, str]], reads: list[tuple[float, int]]) -> tuple[int, float, list[float]]:
    found = judge(
        [Write(ns(at), tokens, kind) for at, tokens, kind in writes], [ns(at) for at, _ in reads], [count for _, count in reads], PROMISE
    )
    return found.late, round(found.past_ns / 1e9, 6), [round(lag / 1e9, 6) for lag in found.lags_ns]


def test_each_kind_has_its_own_lag() -> None:
    assert due_s((0, 1, "content"), (9, 1, "content")) == [1.0, 9.5]
    assert due_s((0, 1, "reasoning"), (9, 1, "reasoning")) == [2.5, 9.5]


def test_the_next_kind_hurries_what_is_held_of_the_one_before() -> None:
    assert due_s((0, 1, "reasoning"), (1.0, 1, "content"), (9, 1, "content")) == [1.5, 2.0, 9.5]


def test_everything_is_due_soon_after_the_last_token() -> None:
    assert due_s((0, 1, "content"), (0.2, 1, "content")) == [0.7, 0.7]


def test_no_token_is_due_after_one_that_follows_it() -> None:
    assert due_s((0, 1, "reasoning"), (0.1, 1, "reasoning"), (0.2, 1, "content"), (9, 1, "content")) == [0.7, 0.7, 1.2, 9.5]


def test_a_token_is_late_beyond_the_tolerance_and_not_before() -> None:
    writes = [(0.0, 10, "content"), (9.0, 1, "content")]
    tolerance_s = TOLERANCE_NS / 1e9
    assert judged(writes, [(0.0, 4), (1.0 + tolerance_s, 6), (9.0, 1)])[0] == 0
    assert judged(writes, [(0.0, 4), (1.001 + tolerance_s, 6), (9.0, 1)])[0] == 6


def test_a_write_is_late_in_part_and_those_after_it_are_judged_by_their_own() -> None:
    late, past_s, _ = judged([(0.0, 10, "content"), (0.5, 10, "content"), (9.0, 1, "content")], [(0.9, 7), (1.3, 10), (1.7, 3), (9.0, 1)])
    assert late == 3 + 3
    assert past_s == 0.3


def test_the_worst_token_tells_how_much_time_was_left() -> None:
    assert judged([(0.0, 2, "content"), (9.0, 1, "content")], [(0.2, 2), (9.1, 1)])[1] == -0.4


def test_a_read_has_waited_as_long_as_its_last_token() -> None:
    writes = [(0.0, 2, "content"), (0.5, 2, "content"), (9.0, 1, "content")]
    assert judged(writes, [(0.1, 1), (0.6, 2), (0.7, 1), (9.0, 1)])[2] == [0.1, 0.1, 0.2, 0.0]
