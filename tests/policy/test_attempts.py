"""What follows the failure of an attempt: on a clock and with chance of the test's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.errors import CODES, Failure
from gateway.policy.attempts import Attempts, Health
from gateway.policy.backoff import Bucket, backoff_s
from gateway.policy.breaker import State
from gateway.policy.classify import Verdict, of_status
from gateway.policy.keys import KeyRing
from gateway.policy.routes import plan_of
from gateway.settings import Retry, Route, RouteTarget, Settings, Tripping, Upstream

RESET = Failure("upstream_reset", "reset")


def answered(status: int, body: bytes | None = None) -> Failure:
    return Failure("upstream_error", "it said no", status, body)


class World:
    """Upstreams a, b, c, ... in order, a request at a time."""

    def __init__(self, upstreams: int = 1, keys: int = 0, retry: Retry | None = None, chance: float = 1.0) -> None:
        listed = tuple(Upstream("abc"[at], "http://x", api_keys=tuple(f"k{key}" for key in range(keys))) for at in range(upstreams))
        self.settings = Settings(listed, retry=retry or Retry())
        self.healths = {upstream.name: Health(upstream, self.settings.retry, self.settings.breaker) for upstream in listed}
        self.chance = chance

    def request(self, now: float = 0.0, repeats: bool = True) -> Attempts:
        plan = plan_of(self.settings, "m", 0.0)
        attempts = Attempts(plan, self.healths, self.settings.retry, lambda: self.chance, now, repeats=repeats)
        attempts.begin(now)
        return attempts

    def places(self, failure: Failure, told_s: float | None = None, now: float = 0.0, repeats: bool = True) -> str:
        """The upstreams that a request asks if all fail alike."""
        attempts = self.request(now, repeats)
        asked = attempts.current.target.upstream
        while (following := attempts.failed(now, failure, told_s)) is not None:
            now += following.delay_s
            attempts.begin(now)
            asked += following.target.upstream
        return asked


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 524, 529])
def test_passing_trouble_is_tried_thrice_at_one_upstream(status: int) -> None:
    assert World().places(answered(status)) == "aaa"


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 422, 451, 501, 505])
def test_what_the_client_must_mend_is_never_tried_again_and_nowhere_else(status: int) -> None:
    assert World(3).places(answered(status)) == "a"


@pytest.mark.parametrize("code", sorted(code for code in CODES if code.startswith("upstream_") and code != "upstream_error"))
def test_every_trouble_with_a_connection_may_pass_or_pass_elsewhere(code: str) -> None:
    expected = {"upstream_total_timeout": "a", "upstream_tls": "ab", "upstream_encoding": "ab", "upstream_event_too_large": "ab"}
    assert World(2).places(Failure(code, "")) == expected.get(code, "aaab")


def test_each_fallback_is_asked_once_after_the_first_has_had_its_repeats() -> None:
    assert World(3).places(answered(503)) == "aaabc"


def test_a_client_that_repeats_by_itself_gets_no_repeats_of_ours() -> None:
    assert World().places(answered(503), repeats=False) == "a"


def test_a_wait_longer_than_the_cap_is_the_clients_to_decide() -> None:
    assert World().places(answered(429), told_s=10.1) == "a"


def test_a_wait_within_the_cap_is_waited_for_and_a_little_more_by_chance() -> None:
    following = World().request().failed(0.0, answered(429), 5.0)
    assert following is not None
    assert following.delay_s == 5.5


def test_told_to_come_at_once_it_comes_at_once() -> None:
    following = World().request().failed(0.0, answered(429), 0.0)
    assert following is not None
    assert following.delay_s == 0.0


def test_where_another_would_answer_nobody_waits_long() -> None:
    following = World(2).request().failed(0.0, answered(429), 20.0)
    assert following is not None
    assert (following.target.upstream, following.delay_s) == ("b", 0.0)


def test_backoff_is_all_chance_and_doubles_up_to_its_cap() -> None:
    assert [backoff_s(attempt, 0.5, 8.0, 1.0) for attempt in range(1, 8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert backoff_s(3, 0.5, 8.0, 0.0) == 0.0


def test_nothing_is_repeated_once_the_request_is_old_but_a_fallback_is_asked() -> None:
    attempts = World(2).request(0.0)
    following = attempts.failed(61.0, Failure("upstream_headers_timeout", ""), None)
    assert following is not None
    assert following.target.upstream == "b"


def test_an_outage_is_not_met_by_a_multiple_of_its_load() -> None:
    world = World(retry=Retry(bucket=20, share=0.2))
    now, repeats = 0.0, 0
    for request in range(1000):
        now = request * 0.001
        repeats += len(world.places(answered(503), 0.0, now)) - 1
    assert repeats <= 20 + 1000 * 0.2 + 2


def test_a_bucket_fills_again_with_time_and_never_over() -> None:
    bucket = Bucket(2, 0.0)
    bucket.request(0.0)
    assert [bucket.take(0.0) for _ in range(3)] == [True, True, False]
    assert bucket.take(1.0)
    bucket.request(1000.0)
    assert bucket.tokens == 2.0


def test_a_tripped_upstream_is_passed_over() -> None:
    world = World(2)
    for _ in range(2):
        world.places(answered(503), 0.0)
    assert world.healths["a"].breaker.state is State.TRIPPED
    assert world.request().current.target.upstream == "b"


def test_where_all_are_tripped_the_least_bad_is_asked_rather_than_nothing() -> None:
    world = World(2)
    for _ in range(3):
        world.places(answered(503), 0.0)
    for _ in range(5):
        world.places(answered(503), 0.0, 5.0)
    assert all(not health.breaker.allows(5.0) for health in world.healths.values())
    assert world.request(5.0).current.target.upstream == "a"  # whose rest ends first


def test_a_refusal_and_a_rate_limit_say_nothing_about_health() -> None:
    for status in (400, 401, 404, 422, 429):
        world = World()
        for _ in range(10):
            world.places(answered(status), 0.0)
        assert world.healths["a"].breaker.state is State.PASSING


def test_a_client_that_leaves_is_nobodys_failure() -> None:
    world = World()
    for _ in range(50):
        world.request().left()
    assert world.healths["a"].breaker.state is State.PASSING


def test_a_limited_key_rests_and_the_next_takes_its_turn_at_once() -> None:
    world = World(keys=3)
    attempts = world.request()
    assert attempts.current.key == 0
    following = attempts.failed(0.0, answered(429), 5.0)
    assert following is not None
    assert (following.key, following.delay_s) == (1, 0.0)
    assert [world.request(1.0).current.key for _ in range(4)] == [2, 1, 2, 1]
    assert {world.request(11.0).current.key for _ in range(3)} == {0, 1, 2}


def test_a_refused_key_is_news_once_and_rests_long() -> None:
    world = World(keys=2)
    attempts = world.request()
    following = attempts.failed(0.0, answered(401), None)
    assert attempts.refused_key
    assert following is not None
    assert following.key == 1
    assert {world.request(500.0).current.key for _ in range(4)} == {1}
    again = Attempts(plan_of(world.settings, "m", 0.0), world.healths, Retry(), lambda: 1.0, 601.0)
    again.begin(601.0)
    if again.current.key != 0:
        again.current = again.current._replace(key=0)
    again.failed(601.0, answered(401), None)
    assert not again.refused_key


def test_the_only_key_that_is_refused_is_told_to_the_client() -> None:
    assert World(keys=1).places(answered(401)) == "a"


def test_a_clients_own_key_that_is_refused_is_told_to_the_client() -> None:
    assert World(2, keys=0).places(answered(401)) == "a"


def test_a_quota_that_is_used_up_is_not_asked_again_with_the_same_key() -> None:
    spent = answered(429, b'{"error":{"message":"x","code":"insufficient_quota"}}')
    assert World().places(spent) == "a"
    assert World(2).places(spent) == "ab"
    assert World(1, keys=2).places(spent) == "aa"


def test_where_all_keys_rest_the_one_that_is_free_first_is_used() -> None:
    ring = KeyRing(2)
    ring.rest(0, 30.0)
    ring.rest(1, 20.0)
    assert not ring.free(0.0)
    assert ring.take(0.0) == 1


@given(some.lists(some.sampled_from([408, 429, 500, 503, 400, 401, 0]), max_size=30), some.integers(1, 3), some.integers(0, 3))
def test_a_request_is_never_asked_more_often_than_its_budget(statuses: list[int], upstreams: int, keys: int) -> None:
    world = World(upstreams, keys)
    attempts, now, stop = world.request(), 0.0, False
    for status in statuses:
        following = attempts.failed(now, answered(status) if status else RESET, None)
        if following is None:
            stop = True
            break
        now += following.delay_s
        attempts.begin(now)
    assert attempts.made <= Retry().attempts - 1 + upstreams
    assert stop or len(statuses) < attempts.made + 1


def test_a_model_goes_where_the_first_pattern_that_fits_says() -> None:
    big, small, rest = RouteTarget("a", model="big-1"), RouteTarget("b", model="small-1"), RouteTarget("b")
    routes = (Route(("gpt-5*", "o?-mini"), (big,), (small,)), Route(("*",), (rest,)))
    settings = Settings((Upstream("a", "http://x"), Upstream("b", "http://y")), routes)
    assert plan_of(settings, "gpt-5.1", 0.5).hops == (big, small)
    assert plan_of(settings, "o4-mini", 0.5).hops == (big, small)
    assert plan_of(settings, "gpt-4", 0.5).hops == (rest,)
    assert plan_of(settings, "gpt-5.1", 0.5, alone=True).hops == (big,)
    assert plan_of(settings, None, 0.5).hops == (RouteTarget("a"),)


def test_without_routes_the_others_stand_behind_the_first() -> None:
    settings = Settings((Upstream("a", "http://x"), Upstream("b", "http://y")))
    assert plan_of(settings, "m", 0.9).hops == (RouteTarget("a"), RouteTarget("b"))
    assert plan_of(settings, None, 0.9, alone=True).hops == (RouteTarget("a"),)


def test_targets_are_drawn_by_weight_and_the_others_stand_behind() -> None:
    three = tuple(RouteTarget(name, weight=weight) for name, weight in (("a", 1), ("b", 3), ("c", 0)))
    settings = Settings(tuple(Upstream(name, "http://x") for name in "abc"), (Route(("*",), three),))
    drawn = ["".join(hop.upstream for hop in plan_of(settings, "m", at / 1000).hops) for at in range(1000)]
    assert {order: drawn.count(order) for order in set(drawn)} == {"abc": 250, "bac": 750}


def test_statuses_have_their_verdicts() -> None:
    assert of_status(401, own_key=True) is Verdict.REFUSED_KEY
    assert of_status(401, own_key=False) is Verdict.FINAL
    assert of_status(529, own_key=False) is Verdict.AGAIN


def test_tripping_is_a_setting() -> None:
    settings = Tripping(failures=1)
    health = Health(Upstream("a", "http://x"), Retry(), settings)
    health.breaker.failed(0.0, health.breaker.begin(0.0))
    assert health.breaker.state is State.TRIPPED
