"""What is learned of an upstream's silences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pacing.horizon import LOST_SHARE, REMEMBERED, Horizon, Silences
from gateway.pacing.rhythm import Rhythm
from gateway.piece import Kind

silences = st.lists(st.floats(0.041, 5.0), min_size=3, max_size=60)


@given(silences)
def test_one_percent_of_the_time_is_lost_in_silences_longer_than_the_horizon(gaps: list[float]) -> None:
    learned = Silences()
    for gap in gaps:
        learned.learn(gap, gap + 0.01, 50.0, 0.01)
    kept = gaps[-REMEMBERED:]
    lost = sum(max(0.0, gap - learned.horizon_s) for gap in kept)
    assert lost == pytest.approx(LOST_SHARE * sum(gap + 0.01 for gap in kept))


def test_before_three_silences_the_longest_counts() -> None:
    learned = Silences()
    learned.learn(0.4, 0.4, 50.0, 0.0)
    learned.learn(0.9, 0.9, 70.0, 0.02)
    assert learned.horizon_s == 0.9
    assert learned.mean_s == pytest.approx(0.65)
    assert learned.run_s == 0.02
    assert learned.large_tokens == pytest.approx(70.0)


def test_only_the_last_silences_are_remembered() -> None:
    learned = Silences()
    for gap in [5.0] * 10 + [0.1] * REMEMBERED:
        learned.learn(gap, gap, 50.0, 0.0)
    assert learned.count == REMEMBERED
    assert learned.mean_s == pytest.approx(0.1)


def test_horizons_of_two_processes_merge() -> None:
    here, there = Horizon(), Horizon()
    here.of(Kind.CONTENT).learn(0.4, 0.4, 50.0, 0.0)
    there.of(Kind.CONTENT).learn(0.8, 0.8, 90.0, 0.0)
    there.learn_tail(0.2)
    here.merge(there)
    assert here.of(Kind.CONTENT).count == 2
    assert here.of(Kind.CONTENT).mean_s == pytest.approx(0.6)
    assert here.tail_s == 0.2


def test_an_end_that_takes_very_long_is_no_habit() -> None:
    horizon = Horizon()
    horizon.learn_tail(30.0)
    assert horizon.tail_s is None
    horizon.learn_tail(0.4)
    horizon.learn_tail(0.0)
    assert horizon.tail_s == pytest.approx(0.28)


def speak(rhythm: Rhythm, runs: list[tuple[float, int, float]], kind: Kind = Kind.CONTENT) -> None:
    """Runs of (begin, tokens, seconds a token)."""
    for begin, tokens, step in runs:
        for i in range(tokens):
            rhythm.arrived(begin + i * step, 1.0, kind)


def test_silences_between_bursts_are_learned_for_the_stream_and_for_the_next() -> None:
    horizon = Horizon()
    rhythm = Rhythm(horizon)
    speak(rhythm, [(t * 0.6, 60, 0.0) for t in range(6)])
    assert rhythm.silences.count == horizon.of(Kind.CONTENT).count == 5
    assert rhythm.silences.horizon_s == pytest.approx(0.594)
    assert rhythm.rate == pytest.approx(100.0)
    following = Rhythm(horizon)
    following.arrived(0.0, 1.0, Kind.CONTENT)
    assert following.silences.count == 5


def test_a_pause_in_a_steady_stream_is_no_rhythm() -> None:
    rhythm = Rhythm(Horizon())
    speak(rhythm, [(0.0, 400, 0.005), (3.0, 400, 0.005)])
    assert rhythm.silences.count == 0


def test_kinds_have_rhythms_of_their_own_and_the_pause_between_them_belongs_to_none() -> None:
    horizon = Horizon()
    rhythm = Rhythm(horizon)
    speak(rhythm, [(t * 0.6, 60, 0.0) for t in range(4)], Kind.REASONING)
    speak(rhythm, [(9.0, 10, 0.01)], Kind.CONTENT)
    assert horizon.of(Kind.REASONING).count == 3
    assert horizon.of(Kind.CONTENT).count == 0
    assert rhythm.silences.count == 0


def test_the_rate_of_a_run_is_that_of_its_last_whole_quarter_second() -> None:
    rhythm = Rhythm(Horizon())
    speak(rhythm, [(0.0, 100, 0.002)])
    assert rhythm.run_rate() == 0.0
    speak(rhythm, [(0.2, 100, 0.002)])
    assert rhythm.run_rate() == pytest.approx(500.0, rel=0.02)
    speak(rhythm, [(2.0, 1, 0.0)])
    assert rhythm.run_rate() == 0.0
