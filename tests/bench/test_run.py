"""A run's bounds: what is kept of many answers, and an answer that does not end."""

from __future__ import annotations

from array import array

import pytest

from gateway.bench.listening import RECORDING_BYTES, Room, listen, weight
from gateway.bench.plan import Plan, Target
from gateway.bench.reading import Sample
from gateway.bench.run import CURVES, GAPS_AT_MOST, Run, _Kept, run
from gateway.piece import Kind
from support.chunks import chunk
from support.plays import Play, Write, sse
from support.upstream import ScriptedUpstream, nobody

pytestmark = pytest.mark.anyio
MANY = sse([chunk("word " * 1000)] * 20)


def plan(*urls: str, requests: int = 2, concurrency: int = 2) -> Plan:
    targets = tuple(Target(f"t{index}", url + "/chat/completions") for index, url in enumerate(urls))
    return Plan(targets, "chat", "m", ("hi",), requests, concurrency, None, 60.0, 60.0, {})


async def test_answers_together_take_no_more_room_than_a_run_has() -> None:
    room = Room(left_bytes=4096)
    async with ScriptedUpstream(Play((Write(MANY),))) as upstream:
        recording = await listen(upstream.url + "/chat/completions", b"{}", {}, None, 60.0, room)
    assert recording.failure == "too large"
    assert weight(recording) < RECORDING_BYTES
    assert room.left_bytes + weight(recording) == 4096, "and what was taken can be given back"


async def test_of_many_streams_three_curves_and_a_bounded_number_of_gaps_are_kept() -> None:
    kept = _Kept()
    one = Sample("whole", 1.0, gaps_s=array("d", [0.1] * (GAPS_AT_MOST // 2)), curve=[(0.0, 1.0, Kind.CONTENT)])
    for number in range(10):
        kept.add(number, one)
    assert sum(bool(sample.curve) for sample in kept.samples.values()) == CURVES
    assert sum(len(sample.gaps_s) for sample in kept.samples.values()) == GAPS_AT_MOST


async def test_each_request_goes_to_every_target_and_is_told_of_as_it_ends() -> None:
    told: list[tuple[int, int, int]] = []
    async with ScriptedUpstream(Play((Write(MANY),))) as upstream, nobody() as url:
        done: Run = await run(plan(upstream.url, url), lambda *figures: told.append(figures))
    assert done.ended == ""
    assert [sample.outcome for sample in done.samples["t0"]] == ["no end"] * 2
    assert [sample.outcome for sample in done.samples["t1"]] == ["refused"] * 2
    assert [done for done, _, _ in told] == [1, 2, 3, 4]
    assert {of for _, of, _ in told} == {4}
