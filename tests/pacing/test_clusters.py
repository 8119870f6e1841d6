"""What the meter counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pacing.clusters import CLUSTER_TOKENS, CLUSTER_WINDOW_S, GAP_BOUNDS_S, Meter
from gateway.piece import Kind

# Times in 1024ths of a second and tokens in quarters, so that sums are exact; 51 of them are just below 50 ms, 52 just above.
arrivals = st.lists(st.tuples(st.sampled_from([0, 1, 3, 10, 20, 51, 52, 400]), st.integers(1, 120)), max_size=30)


def fed(steps: list[tuple[int, int]]) -> tuple[Meter, list[tuple[float, float]], list[float]]:
    sizes: list[float] = []
    meter = Meter(on_cluster=lambda kind, tokens: sizes.append(tokens))
    curve, at = [], 1024
    for gap, quarters in steps:
        at += gap
        curve.append((at / 1024, quarters / 4))
        meter.add(at / 1024, quarters / 4, Kind.CONTENT)
    meter.finish()
    return meter, curve, sizes


def windows(curve: list[tuple[float, float]]) -> list[float]:
    """Tokens in the 50 ms that end with each step."""
    return [sum(n for then, n in curve[: i + 1] if at - then < CLUSTER_WINDOW_S) for i, (at, _) in enumerate(curve)]


@given(arrivals)
def test_the_peak_is_the_most_in_any_50_ms(steps: list[tuple[int, int]]) -> None:
    meter, curve, _ = fed(steps)
    assert meter.peak_tokens == pytest.approx(max(windows(curve), default=0.0))


@given(arrivals)
def test_clusters_are_counted_in_disjoint_windows(steps: list[tuple[int, int]]) -> None:
    meter, curve, sizes = fed(steps)
    count, i = 0, 0
    while i < len(curve):
        begun = next((k for k in range(i, len(curve)) if windows(curve[i:])[k - i] >= CLUSTER_TOKENS), None)
        if begun is None:
            break
        first = next(at for at, _ in curve[i : begun + 1] if curve[begun][0] - at < CLUSTER_WINDOW_S)
        count += 1
        i = next((k for k in range(begun, len(curve)) if curve[k][0] >= first + CLUSTER_WINDOW_S), len(curve))
    assert sum(meter.clusters) == count == len(sizes)
    assert all(size >= CLUSTER_TOKENS for size in sizes)


def test_24_tokens_in_one_write_are_a_cluster_and_23_are_not() -> None:
    assert fed([(0, 96)])[0].clusters[Kind.CONTENT] == 1
    assert fed([(0, 95)])[0].clusters[Kind.CONTENT] == 0


def test_the_window_does_not_hold_its_end() -> None:
    assert fed([(0, 48), (51, 48)])[0].clusters[Kind.CONTENT] == 1
    assert fed([(0, 48), (52, 48)])[0].clusters[Kind.CONTENT] == 0


def test_a_burst_of_120_is_one_cluster_of_120_tokens() -> None:
    meter, _, sizes = fed([(0, 4)] * 120)
    assert meter.clusters[Kind.CONTENT] == 1
    assert sizes == [120.0]


def test_gaps_fall_into_buckets_of_the_kind_that_ended_them() -> None:
    meter = Meter()
    meter.add(1.0, 1.0, Kind.REASONING)
    meter.add(1.004, 1.0, Kind.REASONING)
    meter.add(1.804, 0.0, Kind.TOOL)
    meter.add(40.0, 1.0, Kind.CONTENT)
    assert meter.gap_counts[Kind.REASONING][GAP_BOUNDS_S.index(0.005)] == 1
    assert meter.gap_counts[Kind.TOOL][GAP_BOUNDS_S.index(1.0)] == 1
    assert meter.gap_counts[Kind.CONTENT][-1] == 1
    assert meter.longest_gap_s == pytest.approx(38.196)
    assert (meter.first_at, meter.last_at, meter.tokens) == (1.0, 40.0, 3.0)


def test_what_weighs_nothing_makes_no_cluster() -> None:
    meter = Meter()
    for _ in range(100):
        meter.add(1.0, 0.0, Kind.STRUCTURE)
    assert sum(meter.clusters) == 0
    assert meter.peak_tokens == 0.0
