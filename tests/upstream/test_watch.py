"""The timer of a shared connection, on a clock of the test's own: idle, silent, in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.upstream.watch import Watch


class Clock:
    """A loop's `call_later`, and a time that the test moves on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def call_later(self, after_s: float, then: Callable[[], None]) -> Timer:
        timer = Timer(self, self.now + after_s, then)
        self.timers.append(timer)
        return timer

    def on(self, for_s: float) -> None:
        end = self.now + for_s
        while due := [timer for timer in self.timers if timer.at <= end]:
            first = min(due, key=lambda timer: timer.at)
            self.now = first.at
            first.cancel()
            first.then()
        self.now = end


class Timer:
    def __init__(self, clock: Clock, at: float, then: Callable[[], None]) -> None:
        self.clock, self.at, self.then = clock, at, then

    def cancel(self) -> None:
        if self in self.clock.timers:
            self.clock.timers.remove(self)


class Peer:
    """A connection, and what was done to it."""

    def __init__(self) -> None:
        self.reads = 0
        self.did: list[str] = []

    def ping(self) -> None:
        self.did.append("ping")

    def drop(self) -> None:
        self.did.append("drop")

    def fail(self, error: Exception) -> None:
        self.did.append("fail")


def watched() -> tuple[Clock, Peer, Watch]:
    clock, peer = Clock(), Peer()
    loop: Any = clock
    return clock, peer, Watch(peer, loop, lambda: clock.now, 60, 30, 15)


def test_a_silent_peer_is_asked_and_then_it_is_dead() -> None:
    clock, peer, watch = watched()
    watch.busy()
    clock.on(30)
    assert (peer.did, watch.doubted) == (["ping"], True)
    clock.on(15)
    assert peer.did == ["ping", "fail"]


def test_an_answer_is_life() -> None:
    clock, peer, watch = watched()
    watch.busy()
    clock.on(30)
    peer.reads += 1
    assert not watch.doubted
    clock.on(44)
    assert peer.did == ["ping"]


def test_streams_that_are_given_up_one_after_another_do_not_keep_a_dead_peer_in_use() -> None:
    clock, peer, watch = watched()
    for _ in range(4):
        watch.busy()
        clock.on(5)
        watch.doubt()
        watch.idle()
    assert (peer.did, watch.doubted) == (["ping", "fail"], True)


def test_in_doubt_it_is_asked_at_once_and_only_once() -> None:
    clock, peer, watch = watched()
    watch.busy()
    watch.doubt()
    watch.doubt()
    watch.idle()
    assert (peer.did, watch.doubted) == (["ping"], True)
    clock.on(15)
    assert peer.did == ["ping", "fail"]


def test_one_that_answers_is_idle_from_when_its_last_stream_ended() -> None:
    clock, peer, watch = watched()
    watch.busy()
    watch.doubt()
    watch.idle()
    peer.reads += 1
    clock.on(59)
    assert (peer.did, watch.doubted) == (["ping"], False)
    clock.on(1)
    assert peer.did == ["ping", "drop"]
