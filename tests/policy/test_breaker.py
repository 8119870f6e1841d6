"""One upstream's breaker, on a clock of the test's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from gateway.policy.breaker import Breaker, Permit, State
from gateway.settings import Tripping

RULES = Tripping()  # 5 in a row; half of 20 in 30 s; 12 s rest


def fail(breaker: Breaker, now: float, times: int = 1) -> None:
    for _ in range(times):
        breaker.failed(now, breaker.begin(now))


def succeed(breaker: Breaker, now: float, times: int = 1) -> None:
    for _ in range(times):
        breaker.succeeded(now, breaker.begin(now))


def tripped() -> Breaker:
    breaker = Breaker(RULES)
    fail(breaker, 0.0, 5)
    assert breaker.state is State.TRIPPED
    return breaker


def test_five_failures_in_a_row_trip_it_and_four_do_not() -> None:
    breaker = Breaker(RULES)
    fail(breaker, 0.0, 4)
    assert breaker.state is State.PASSING
    fail(breaker, 0.0)
    assert breaker.state is State.TRIPPED
    assert not breaker.allows(0.0)


def test_a_success_between_begins_the_row_anew() -> None:
    breaker = Breaker(RULES)
    fail(breaker, 0.0, 4)
    succeed(breaker, 0.0)
    fail(breaker, 0.0, 4)
    assert breaker.state is State.PASSING


def test_a_rate_of_failures_trips_it_only_over_a_minimum_of_requests() -> None:
    breaker = Breaker(RULES)
    for _ in range(9):
        fail(breaker, 1.0)
        succeed(breaker, 1.0)
    assert breaker.state is State.PASSING  # 9 of 18
    succeed(breaker, 1.0)
    fail(breaker, 1.0)
    assert breaker.state is State.TRIPPED  # 10 of 20


def test_failures_are_forgotten_after_the_window() -> None:
    breaker = Breaker(RULES)
    for _ in range(9):
        fail(breaker, 1.0)
        succeed(breaker, 1.0)
    succeed(breaker, 40.0, 10)
    fail(breaker, 40.0)
    assert breaker.state is State.PASSING


def test_after_its_rest_one_probes_and_no_second() -> None:
    breaker = tripped()
    assert not breaker.allows(11.9)
    assert breaker.allows(12.0)
    permit = breaker.begin(12.0)
    assert permit.probe
    assert breaker.state is State.PROBING
    assert not breaker.allows(12.0)
    breaker.succeeded(13.0, permit)
    assert breaker.state is State.PASSING


def test_a_probe_that_fails_begins_the_rest_anew() -> None:
    breaker = tripped()
    breaker.failed(20.0, breaker.begin(20.0))
    assert breaker.state is State.TRIPPED
    assert not breaker.allows(31.9)
    assert breaker.allows(32.0)


def test_a_probe_whose_client_leaves_gives_its_place_back() -> None:
    breaker = tripped()
    breaker.left(breaker.begin(12.0))
    assert breaker.allows(12.0)
    assert breaker.state is State.TRIPPED


def test_what_was_begun_before_the_trip_does_not_close_it() -> None:
    breaker = Breaker(RULES)
    old = breaker.begin(0.0)
    fail(breaker, 0.0, 5)
    breaker.succeeded(1.0, old)
    assert breaker.state is State.TRIPPED


def test_what_was_begun_before_the_trip_does_not_prolong_it() -> None:
    breaker = Breaker(RULES)
    old = [breaker.begin(0.0) for _ in range(10)]
    fail(breaker, 0.0, 5)
    for permit in old:
        breaker.failed(11.0, permit)
    assert breaker.allows(12.0)


def test_one_that_was_asked_for_want_of_a_better_one_and_works_passes_again() -> None:
    breaker = tripped()
    breaker.succeeded(1.0, breaker.begin(1.0))
    assert breaker.state is State.PASSING


@given(some.lists(some.tuples(some.sampled_from(["begin", "ok", "fail", "left"]), some.floats(0, 20)), max_size=60))
def test_never_two_probes_are_out_and_it_never_stays_shut(steps: list[tuple[str, float]]) -> None:
    breaker, now, out = Breaker(Tripping(failures=2)), 0.0, list[Permit]()
    for step, passed in steps:
        now += passed
        if step == "begin":
            out.append(breaker.begin(now))
        elif out:
            permit = out.pop(0)
            if step == "left":
                breaker.left(permit)
            else:
                (breaker.succeeded if step == "ok" else breaker.failed)(now, permit)
        assert sum(permit.probe for permit in out) <= 1
    for permit in out:
        breaker.left(permit)
    assert breaker.allows(now + Tripping().rest)
