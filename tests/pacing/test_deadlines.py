"""The promise as a curve: the least rate that keeps it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pacing.deadlines import Deadlines

steps = st.lists(st.tuples(st.floats(0.0, 0.5), st.floats(0.5, 50.0), st.sampled_from([0.5, 1.0, 2.5])), min_size=1, max_size=40)


@given(steps)
def test_the_rate_is_the_steepest_line_to_any_deadline(arrivals: list[tuple[float, float, float]]) -> None:
    deadlines = Deadlines()
    now = total = 0.0
    points: list[tuple[float, float]] = []
    for gap, tokens, lag in arrivals:
        # Nothing leaves, so nothing may have come due.
        now += gap / 100
        total += tokens
        deadlines.add(now + lag, total)
        points.append((now + lag, total))
    assert deadlines.rate(now, 0.0) == pytest.approx(max(count / (due - now) for due, count in points))


@given(steps)
def test_going_at_the_rate_is_never_late(arrivals: list[tuple[float, float, float]]) -> None:
    deadlines = Deadlines()
    now = total = out = 0.0
    promised: list[tuple[float, float]] = []

    def go(seconds: float) -> None:
        nonlocal now, out
        for _ in range(max(1, int(seconds / 0.01))):
            step = seconds / max(1, int(seconds / 0.01))
            out = min(total, out + max(deadlines.rate(now, out) * step, deadlines.overdue(now + step, out)))
            now += step
            assert all(out >= count - 1e-6 for due, count in promised if due <= now)

    for gap, tokens, lag in arrivals:
        total += tokens
        deadlines.add(now + lag, total)
        promised.append((now + lag, total))
        if gap > 0.001:
            go(gap)
    go(3.0)
    assert out == pytest.approx(total)


def test_a_later_token_with_an_earlier_deadline_brings_those_before_it_forward() -> None:
    deadlines = Deadlines()
    deadlines.add(2.5, 100.0)
    deadlines.add(0.5, 110.0)
    assert deadlines.rate(0.0, 0.0) == pytest.approx(220.0)


def test_tightening_never_loosens() -> None:
    deadlines = Deadlines()
    deadlines.add(1.0, 10.0)
    deadlines.tighten(3.0, 10.0)
    assert deadlines.left(0.0) == 1.0
    deadlines.tighten(0.5, 10.0)
    assert deadlines.left(0.0) == 0.5


def test_what_is_overdue_is_told_apart_from_the_rate() -> None:
    deadlines = Deadlines()
    deadlines.add(1.0, 10.0)
    deadlines.add(2.0, 11.0)
    assert deadlines.overdue(1.0, 4.0) == 6.0
    assert deadlines.rate(1.0, 10.0) == pytest.approx(1.0)
    assert deadlines.overdue(1.0, 10.0) == 0.0


def test_time_that_stood_still_moves_deadlines_but_not_beyond_the_latest() -> None:
    deadlines = Deadlines()
    deadlines.add(1.0, 10.0)
    deadlines.add(2.0, 20.0)
    deadlines.shift(3.0, 4.5)
    assert deadlines.overdue(4.0, 0.0) == 10.0
    assert deadlines.overdue(4.5, 0.0) == 20.0


def test_without_deadlines_nothing_is_needed() -> None:
    deadlines = Deadlines()
    assert deadlines.rate(1.0, 0.0) == 0.0
    assert deadlines.left(1.0) == float("inf")
    deadlines.add(2.0, 1.0)
    deadlines.clear()
    assert deadlines.overdue(9.0, 0.0) == 0.0
