"""What a running stream's meter notes, and the file that it is kept in."""

from __future__ import annotations

import resource
import signal
from functools import partial
from multiprocessing import get_context
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
        store.add(partial(Trace, f"t{index}", (Burst(1.0, 2),)))
    store.close()
    assert path.stat().st_size <= 400
    assert (tmp_path / "t.jsonl.1").stat().st_size <= 400
    assert load(path)[-1].name == "t19"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["t.jsonl", "t.jsonl.1"]


def _write_many(path: Path, limit_bytes: int, name: str) -> None:
    store = Store(path, limit_bytes)
    for index in range(40):
        store.add(partial(Trace, f"{name}{index}", (Burst(1.0, 2),)))
    store.close()


def test_two_gateways_on_one_file_tear_no_line_and_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    others = [get_context("spawn").Process(target=_write_many, args=(path, 10**6, name)) for name in "ab"]
    for other in others:
        other.start()
    for other in others:
        other.join()
        assert other.exitcode == 0
    assert sorted(trace.name for trace in load(path)) == sorted(f"{name}{index}" for name in "ab" for index in range(40))


def test_two_gateways_that_rotate_one_file_keep_both_files_whole_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    others = [get_context("spawn").Process(target=_write_many, args=(path, 1000, name)) for name in "ab"]
    for other in others:
        other.start()
    for other in others:
        other.join()
    for file in (path, tmp_path / "t.jsonl.1"):
        assert file.stat().st_size <= 1000
        assert file.read_bytes().endswith(b"\n")
        assert load(file)
    assert len(load(tmp_path / "t.jsonl.1")) > 5, "a file that was just begun is not put away once more"


def test_what_a_full_disk_tore_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    store = Store(path, 10**6)
    store.add(partial(Trace, "first", (Burst(1.0, 2),)))
    store.close()
    whole = path.read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heeded = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, before[1]))  # as a full disk does: ten bytes more, then an error
    try:
        store = Store(path, 10**6)
        store.add(partial(Trace, "second", (Burst(1.0, 2),)))
        store.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heeded)
    assert path.read_bytes() == whole
    store = Store(path, 10**6)
    store.add(partial(Trace, "third", (Burst(1.0, 2),)))
    store.close()
    assert [trace.name for trace in load(path)] == ["first", "third"]


def test_a_trace_that_cannot_be_made_is_lost_alone(tmp_path: Path) -> None:
    def broken() -> Trace:
        raise ZeroDivisionError

    store = Store(tmp_path / "t.jsonl", 10**6)
    store.add(broken)
    store.add(partial(Trace, "next", (Burst(1.0, 2),)))
    store.close()
    assert [trace.name for trace in load(tmp_path / "t.jsonl")] == ["next"]
