"""What a running stream's meter notes, and the file that it is kept in."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.piece import LABELS, Kind
from gateway.traces import Trace, load
from gateway.traces.format import Burst
from gateway.traces.recorder import STEPS_AT_MOST, RecordingMeter, bursts
from gateway.traces.store import Store

STEPS = st.lists(st.tuples(st.floats(0, 100), st.floats(0.01, 500), st.sampled_from([Kind.CONTENT, Kind.REASONING, Kind.TOOL])), min_size=1)


@given(STEPS)
def test_no_token_is_lost_by_rounding_more_than_half_of_one_of_each_kind(steps: list[tuple[float, float, Kind]]) -> None:
    steps = sorted(steps, key=lambda step: step[0])
    meter = RecordingMeter()
    for at, tokens, kind in steps:
        meter.add(at, tokens, kind)
    found = bursts(meter.steps, 0.0)
    for kind in (Kind.CONTENT, Kind.REASONING, Kind.TOOL):
        came = sum(tokens for _, tokens, each in steps if each is kind)
        noted = sum(burst.tokens for burst in found if burst.kind == LABELS[kind])
        assert abs(came - noted) <= 1.0
    assert [burst.at_ms for burst in found] == sorted(burst.at_ms for burst in found)


def test_the_note_is_bounded_and_still_holds_every_token() -> None:
    meter = RecordingMeter()
    for index in range(STEPS_AT_MOST + 500):
        meter.add(index * 0.01, 1.0, Kind.CONTENT)
    assert len(meter.steps) == STEPS_AT_MOST
    assert sum(tokens for _, tokens, _ in meter.steps) == STEPS_AT_MOST + 500


def test_the_file_is_bounded_by_rotation(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    store = Store(path, 400)
    for index in range(20):
        store.add(Trace(f"t{index}", (Burst(1.0, 2),)))
    store.close()
    assert path.stat().st_size <= 400
    assert (tmp_path / "t.jsonl.1").stat().st_size <= 400
    assert load(path)[-1].name == "t19"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["t.jsonl", "t.jsonl.1"]
