"""The table of scenarios keeps what it says."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gateway.simulator.scenarios import TABLE, Burst, find


def of(name: str, kind: str) -> list[Burst]:
    return [burst for burst in TABLE[name].bursts if burst.kind == kind]


def gaps(bursts: list[Burst]) -> list[float]:
    return [b.at_s - a.at_s for a, b in pairwise(bursts)]


@pytest.mark.parametrize("name", TABLE)
def test_bursts_stand_in_order_and_have_tokens(name: str) -> None:
    bursts = TABLE[name].bursts
    assert all(a.at_s + a.spread_s <= b.at_s for a, b in pairwise(bursts))
    assert all(burst.tokens > 0 for burst in bursts)


def test_smooth_then_clusters_is_smooth_for_800_ms_and_then_clusters_of_40_to_120() -> None:
    lead, *clusters = of("smooth-then-clusters", "reasoning")
    assert lead.spread_s == pytest.approx(0.8, abs=0.01)
    clusters += of("smooth-then-clusters", "content")
    assert all(40 <= burst.tokens <= 120 and burst.spread_s == 0 for burst in clusters)
    assert of("smooth-then-clusters", "content")


def test_the_default_demo_fits_into_25_s() -> None:
    assert TABLE["smooth-then-clusters"].last_s < 15


def test_clusters_are_60_to_240_every_1_to_2_s() -> None:
    bursts = list(TABLE["clusters"].bursts)
    assert {burst.kind for burst in bursts} == {"reasoning", "content"}
    assert all(60 <= burst.tokens <= 240 and burst.spread_s == 0 for burst in bursts)
    assert all(0.999 <= gap <= 2.001 for gap in gaps(bursts))


def test_planner_thinks_for_7_4_s_and_then_says_12_tokens_a_second() -> None:
    [thought] = of("planner", "reasoning")
    [answer] = of("planner", "content")
    assert (thought.at_s, thought.tokens, thought.spread_s) == (7.4, 1847, 0)
    assert answer.tokens / answer.spread_s == pytest.approx(12)


def test_held_to_the_end_is_600_tokens_at_5_s() -> None:
    assert TABLE["held-to-the-end"].bursts == (Burst(5.0, 600),)


def test_large_deltas_are_of_about_100_tokens() -> None:
    assert all(burst.pack == 0 and 80 <= burst.tokens <= 120 for burst in TABLE["large-deltas"].bursts)


def test_steady_is_187_tokens_a_second() -> None:
    [burst] = TABLE["steady"].bursts
    assert burst.tokens / burst.spread_s == pytest.approx(187)


def test_silence_lasts_as_long_as_the_name_says() -> None:
    for name, silence_s in (("silent", 20), ("silent-3", 3), ("silent-600", 600)):
        scenario = find(name)
        assert scenario is not None
        assert scenario.bursts[0].at_s == silence_s
        assert scenario.bursts[1].at_s > silence_s
        assert scenario.name == name


@pytest.mark.parametrize("name", ["", "silent-", "silent-0", "silent-999999", "Steady", "gpt-4o"])
def test_other_names_are_unknown(name: str) -> None:
    assert find(name) is None
