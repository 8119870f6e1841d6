"""The offline optimum and the figures that compare with it."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.pacing.figures import judge, late, peak_of, rate_cv, stall_s
from gateway.pacing.optimum import GRID_S, optimum, promised, taut_string
from gateway.piece import Kind
from gateway.settings import Pacing

PACING = Pacing()
corridors = st.lists(st.tuples(st.floats(0, 5), st.floats(0, 8)), min_size=3, max_size=60)
kinds = st.sampled_from([Kind.CONTENT, Kind.REASONING, Kind.TOOL])
arrivals = st.lists(st.tuples(st.floats(0.0, 0.8), st.floats(1, 80), kinds), min_size=1, max_size=15)


def corridor(steps: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Rising bounds, the lower never above the upper, that meet at the end."""
    upper = list(accumulate(rise for rise, _ in steps))
    lower = [max(0.0, total - slack) for total, (_, slack) in zip(upper, steps, strict=True)]
    lower = list(accumulate(lower, max))
    return [*lower, upper[-1]], [*upper, upper[-1]]


def filled(bends: list[tuple[int, float]]) -> list[float]:
    path = [bends[0][1]]
    for (i, low), (j, high) in pairwise(bends):
        path += [low + (high - low) * (k - i) / (j - i) for k in range(i + 1, j + 1)]
    return path


@given(corridors)
def test_the_string_stays_in_its_corridor(steps: list[tuple[float, float]]) -> None:
    lower, upper = corridor(steps)
    path = filled(taut_string(lower, upper, lower[0]))
    assert len(path) == len(lower)
    assert all(low - 1e-6 <= at <= high + 1e-6 for low, at, high in zip(lower, path, upper, strict=True))
    assert path[-1] == pytest.approx(upper[-1])


@given(corridors)
def test_the_string_bends_only_where_a_bound_holds_it(steps: list[tuple[float, float]]) -> None:
    """What makes it the shortest: it turns up only round the lower bound's teeth and down only round the upper's."""
    lower, upper = corridor(steps)
    path = filled(taut_string(lower, upper, lower[0]))
    for i in range(1, len(path) - 1):
        turn = (path[i + 1] - path[i]) - (path[i] - path[i - 1])
        if turn > 1e-6:
            assert path[i] == pytest.approx(upper[i])
        elif turn < -1e-6:
            assert path[i] == pytest.approx(lower[i])


@given(arrivals)
@settings(deadline=None, max_examples=60)
def test_the_optimum_is_never_late_and_delivers_everything(steps: list[tuple[float, float, Kind]]) -> None:
    at, came = 0.0, []
    for gap, tokens, kind in steps:
        at += gap
        came.append((at, tokens, kind))
    due = promised(came, PACING)
    best = optimum(came, due)
    assert sum(tokens for _, tokens in best) == pytest.approx(sum(tokens for _, tokens, _ in came))
    assert late([(deadline + GRID_S, tokens) for deadline, tokens in due], best) == pytest.approx(0.0, abs=1e-3)


def test_a_burst_is_spread_evenly_over_its_promise() -> None:
    came = [(0.0, 100.0, Kind.CONTENT)]
    best = optimum(came, promised(came, Pacing(end=1.0)))
    assert peak_of(best[2:]) == pytest.approx(5.0, rel=0.1)
    assert stall_s(best) == 0.0


def test_deadlines_come_of_kind_switch_and_end() -> None:
    came = [(0.0, 1.0, Kind.REASONING), (1.0, 1.0, Kind.REASONING), (1.2, 1.0, Kind.CONTENT), (9.0, 1.0, Kind.TOOL)]
    assert [at for at, _ in promised(came, PACING)] == pytest.approx([1.7, 1.7, 2.2, 9.5])


def test_figures_of_a_stream_that_passed_untouched() -> None:
    came = [(i * 0.1, 2.0, Kind.CONTENT) for i in range(20)]
    found = judge(came, came, PACING)
    assert (found.tokens, found.late, found.clusters) == (40.0, 0.0, 0)
    assert (found.first_added_ms, found.end_lag_ms, found.lag_p50_ms) == (0.0, 0.0, 0.0)
    assert found.rate_cv == pytest.approx(0.0, abs=0.4)


def test_tokens_that_came_too_late_are_counted() -> None:
    due = [(1.0, 10.0), (2.0, 10.0)]
    assert late(due, [(1.04, 10.0), (2.2, 10.0)]) == pytest.approx(10.0)
    assert late(due, [(1.06, 4.0), (1.9, 16.0)]) == pytest.approx(10.0)


def test_silence_beyond_a_quarter_of_a_second_is_a_stall() -> None:
    assert stall_s([(0.0, 1.0), (0.2, 1.0), (0.6, 1.0), (0.7, 0.0), (0.9, 1.0)]) == pytest.approx(0.2)


def test_an_even_rate_does_not_vary() -> None:
    even = [(i * 0.01 + 0.005, 1.0) for i in range(100)]
    assert rate_cv(even, 0.0, 1.0) == pytest.approx(0.0, abs=0.05)
    assert rate_cv([], 0.0, 1.0) == 0.0
