"""The shared timer of all streams that pace, and the alarm of one, on a virtual clock."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import pytest

from gateway.clock import LOOK_S, SLOTS, WIDER, Lateness, Ticker
from gateway.relay.alarm import Alarm
from support.loop import VirtualLoop

FRAME_S = 0.020


class Stream:
    """Asks for `frames` frames. takes_s: what each costs."""

    def __init__(self, loop: VirtualLoop, frames: int = 10**9, takes_s: float = 0.0) -> None:
        self.loop, self.left, self.takes_s = loop, frames, takes_s
        self.asked: list[float] = []

    def on_tick(self, now: float) -> bool:
        self.asked.append(now)
        self.loop.now += self.takes_s
        self.left -= 1
        return self.left > 0

    @property
    def gaps(self) -> list[float]:
        return [b - a for a, b in pairwise(self.asked)]


def ticking(loop: VirtualLoop) -> Ticker:
    return Ticker(cast(Any, loop), FRAME_S)


def test_each_stream_is_asked_each_frame() -> None:
    loop = VirtualLoop()
    ticker = ticking(loop)
    streams = [Stream(loop) for _ in range(10)]
    for stream in streams:
        ticker.add(stream)
    loop.run_until(1.0)
    for stream in streams:
        assert len(stream.asked) == pytest.approx(1.0 / FRAME_S, abs=1)
        assert stream.gaps == pytest.approx([FRAME_S] * len(stream.gaps))


def test_streams_are_spread_over_the_frame() -> None:
    loop = VirtualLoop()
    ticker = ticking(loop)
    streams = [Stream(loop) for _ in range(SLOTS * 3)]
    slots = [ticker.add(stream) for stream in streams]
    assert sorted(slots) == sorted([*range(SLOTS)] * 3)
    loop.run_until(FRAME_S)
    moments = [stream.asked[0] for stream in streams]
    assert len(set(moments)) == SLOTS


def test_there_is_one_timer_and_none_when_nobody_needs_it() -> None:
    loop = VirtualLoop()
    ticker = ticking(loop)
    assert loop.waiting == 0
    streams = [Stream(loop, frames) for frames in (1, 3, 5)]
    for stream in streams:
        ticker.add(stream)
        assert loop.waiting == 1
    loop.run_until(1.0)
    assert [len(stream.asked) for stream in streams] == [1, 3, 5]
    assert loop.waiting == 0
    ticker.add(late := Stream(loop, 2))
    loop.run_until(2.0)
    assert len(late.asked) == 2


def test_a_stream_that_was_removed_is_not_asked() -> None:
    loop = VirtualLoop()
    ticker = ticking(loop)
    stream = Stream(loop)
    slot = ticker.add(stream)
    loop.run_until(0.1)
    asked = len(stream.asked)
    ticker.remove(stream, slot)
    loop.run_until(0.5)
    assert len(stream.asked) == asked
    assert loop.waiting == 0


def test_under_load_frames_widen_before_anything_is_late_and_narrow_again() -> None:
    loop = VirtualLoop()
    ticker = ticking(loop)
    streams = [Stream(loop, takes_s=FRAME_S / SLOTS / 2.5) for _ in range(SLOTS * 2)]  # 80 % of each turn
    for stream in streams:
        ticker.add(stream)
    loop.run_until(2.0)
    assert ticker.frame_s > FRAME_S
    assert ticker.frame_s <= FRAME_S * WIDER[-1]
    for stream in streams:
        stream.takes_s = 0.0
    loop.run_until(6.0)
    assert ticker.frame_s == FRAME_S


def test_a_hiccup_is_no_load() -> None:
    loop = VirtualLoop()
    ticker = ticking(loop)
    stream = Stream(loop)
    ticker.add(stream)
    loop.run_until(1.0)
    loop.now += 0.3  # the machine stood still
    loop.run_until(2.0)
    assert ticker.frame_s == FRAME_S
    late = [gap for gap in stream.gaps if gap > FRAME_S * 1.5]
    assert len(late) == 1


def test_after_a_hiccup_turns_are_not_caught_up() -> None:
    loop = VirtualLoop()
    ticker = ticking(loop)
    stream = Stream(loop)
    ticker.add(stream)
    loop.run_until(1.0)
    asked = len(stream.asked)
    loop.now += 1.0
    loop.run_until(2.01)
    assert len(stream.asked) <= asked + 2


# The alarm


def alarm(loop: VirtualLoop) -> tuple[Alarm, list[float]]:
    rung: list[float] = []
    return Alarm(cast(Any, loop), lambda: rung.append(loop.now)), rung


def test_it_rings_once_at_the_time_that_was_set() -> None:
    loop = VirtualLoop()
    made, rung = alarm(loop)
    made.set(5.0)
    loop.run_until(100.0)
    assert rung == [pytest.approx(5.0, abs=0.002)]
    assert rung[0] > 5.0  # never before: whoever is rung compares with the clock


def test_it_is_set_sooner_but_never_later() -> None:
    loop = VirtualLoop()
    made, rung = alarm(loop)
    made.set(5.0)
    made.set(9.0)
    assert loop.waiting == 1
    made.set(2.0)
    assert loop.waiting == 1
    loop.run_until(20.0)
    assert rung == [pytest.approx(2.0, abs=0.002)]


def test_a_time_that_has_passed_rings_soon_and_infinity_never() -> None:
    loop = VirtualLoop()
    loop.now = 50.0
    made, rung = alarm(loop)
    made.set(float("inf"))
    assert loop.waiting == 0
    made.set(3.0)
    loop.run_until(60.0)
    assert rung == [pytest.approx(50.0, abs=0.002)]


def test_it_can_be_cleared_and_set_again() -> None:
    loop = VirtualLoop()
    made, rung = alarm(loop)
    made.set(5.0)
    made.clear()
    made.set(7.0)
    loop.run_until(20.0)
    assert rung == [pytest.approx(7.0, abs=0.002)]


class Busy:
    """Work that takes the loop so much longer than it has, again and again."""

    def __init__(self, loop: VirtualLoop, takes_s: float) -> None:
        self.loop, self.takes_s = loop, takes_s
        loop.call_later(LOOK_S, self.work)

    def work(self) -> None:
        self.loop.now += self.takes_s
        self.loop.call_later(LOOK_S / 5, self.work)


def watched(loop: VirtualLoop) -> Lateness:
    lateness = Lateness(cast(Any, loop), lambda: True)
    lateness.watch()
    return lateness


def test_a_loop_that_keeps_its_times_is_not_late() -> None:
    loop = VirtualLoop()
    lateness = watched(loop)
    loop.run_until(5.0)
    assert lateness.mean_s == 0.0
    assert not lateness.over(0.001)


def test_lasting_overload_is_noticed_within_two_seconds_and_its_end_too() -> None:
    loop = VirtualLoop()
    lateness = watched(loop)
    busy = Busy(loop, 0.3)
    loop.run_until(3.0)
    assert lateness.over(0.05)
    busy.takes_s = 0.0
    loop.run_until(6.0)
    assert not lateness.over(0.05)


def test_a_machine_that_stood_still_once_is_not_overloaded() -> None:
    loop = VirtualLoop()
    lateness = watched(loop)
    loop.run_until(1.0)
    loop.now += 3.0
    loop.run_until(4.05)
    assert 0.0 < lateness.mean_s < 0.05


def test_what_was_over_the_limit_stays_so_until_it_is_below_half_of_it() -> None:
    lateness = watched(VirtualLoop())
    lateness.mean_s = 0.06
    assert lateness.over(0.05)
    lateness.mean_s = 0.03
    assert lateness.over(0.05)
    lateness.mean_s = 0.02
    assert not lateness.over(0.05)
    lateness.mean_s = 0.03
    assert not lateness.over(0.05)


def test_nothing_is_watched_while_nobody_has_to_be_in_time() -> None:
    loop = VirtualLoop()
    wanted = True
    lateness = Lateness(cast(Any, loop), lambda: wanted)
    assert loop.waiting == 0
    lateness.watch()
    lateness.watch()
    assert loop.waiting == 1
    lateness.mean_s = 1.0
    wanted = False
    loop.run_until(1.0)
    assert loop.waiting == 0
    assert lateness.mean_s == 0.0
