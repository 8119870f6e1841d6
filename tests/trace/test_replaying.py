"""A trace through the pacer, offline: the promise holds there as it does live."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import Pacing
from gateway.traces import Burst, Trace, TraceError, load
from gateway.traces.replaying import by_lag, enough, replay, steps_of, with_lag

TRACES = sorted((Path(__file__).parents[1] / "traces").glob("*.json"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_every_token_is_delivered_in_order_and_none_late(path: Path) -> None:
    [trace] = load(path)
    played = replay(trace, Pacing())
    assert sum(tokens for _, tokens, _ in played.delivered) == pytest.approx(trace.tokens)
    kinds = [kind for _, _, kind in played.delivered]
    order = [kind for index, kind in enumerate(kinds) if index == 0 or kind is not kinds[index - 1]]
    came = [step[2] for step in played.arrived]
    assert order == [kind for index, kind in enumerate(came) if index == 0 or kind is not came[index - 1]]
    assert played.figures.late == 0
    assert played.figures.first_added_ms == 0


def test_a_longer_lag_spreads_a_burst_further() -> None:
    trace = Trace("t", tuple(Burst(at * 1000.0, 100) for at in range(6)))
    short = replay(trace, with_lag(Pacing(), "content", 0.2)).figures
    long = replay(trace, with_lag(Pacing(), "content", 1.5)).figures
    assert short.stall_ms > long.stall_ms
    assert short.peak_tokens > long.peak_tokens


def test_the_lag_that_is_enough_gains_nothing_by_growing() -> None:
    trace = Trace("t", tuple(Burst(at * 1000.0, 60) for at in range(8)))
    found = by_lag(trace, Pacing())
    least = enough(found)
    figures = dict(found)
    assert figures[least].clusters == min(each.clusters for each in figures.values())
    assert all(lag < least for lag, each in found if each.stall_ms > found[-1][1].stall_ms + 100)


def test_a_spread_burst_is_events_over_its_time() -> None:
    steps = steps_of([Burst(1000.0, 10, spread_ms=500.0, pack=4)])
    assert [(round(at, 3), tokens) for at, tokens, _ in steps] == [(1.0, 4.0), (1.167, 4.0), (1.333, 2.0)]


def test_a_trace_of_a_day_is_refused_before_it_takes_all_memory() -> None:
    with pytest.raises(TraceError, match="longer than 2 h"):
        replay(Trace("t", (Burst(0.0, 1), Burst(86_400_000.0, 1))), Pacing())
