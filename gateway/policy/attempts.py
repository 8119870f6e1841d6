"""The attempts of one request: where it goes first, and after a failure whether, where and when it goes again.

Owns the order of the decisions; each rule has a module of its own (classify, retry_after, backoff, breaker, keys, routes). Pure: `now` and
chance are passed in, what is decided is done by the relay.

Invariants: a request repeats at most `retry.attempts` - 1 times and asks each further target once; what upstreams share (breaker, bucket,
keys) is told of each outcome exactly once; nothing here is asked once real content has left, but `go_on`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gateway.errors import Failure
from gateway.policy.backoff import Bucket, backoff_s
from gateway.policy.breaker import Breaker, Permit
from gateway.policy.classify import Verdict, is_fault, verdict_of
from gateway.policy.keys import KeyRing
from gateway.policy.routes import Plan
from gateway.settings import Retry, RouteTarget, Tripping, Upstream

_SPREAD: float = 0.1  # of a wait that the upstream named, added by chance: those who were told the same do not come back together


class Health:
    """What all requests to one upstream share."""

    __slots__ = ("breaker", "bucket", "keys")

    def __init__(self, upstream: Upstream, retry: Retry, tripping: Tripping) -> None:
        self.breaker = Breaker(tripping)
        self.bucket = Bucket(retry.bucket, retry.share)
        self.keys = KeyRing(len(upstream.keys))


class Try(NamedTuple):
    """hop: its place in the plan. key: of the upstream's keys; -1: the client's own. delay_s: to wait before."""

    hop: int
    target: RouteTarget
    key: int
    delay_s: float


class Attempts:
    """current: the attempt that is on its way. made: how many there were. gave_up: it might have passed later, but no more is tried here.

    refused_key: a key of ours was refused with the last failure, and that is news.
    """

    __slots__ = (
        "_asked",
        "_began",
        "_chance",
        "_healths",
        "_permit",
        "_repeats",
        "_rules",
        "current",
        "gave_up",
        "made",
        "plan",
        "refused_key",
    )

    def __init__(
        self, plan: Plan, healths: Mapping[str, Health], rules: Retry, chance: Callable[[], float], now: float, *, repeats: bool = True
    ) -> None:
        """`repeats`: False where the client repeats by itself: its attempts and ours must not multiply."""
        self.plan = plan
        self._healths = healths
        self._rules = rules
        self._chance = chance
        self._began = now
        self._repeats = rules.attempts - 1 if repeats else 0
        self._asked = [0] * len(plan.hops)
        self._permit: Permit | None = None
        self.made = 0
        self.gave_up = False
        self.refused_key = False
        self.current = self._at(now, self._first(now), 0.0)

    @property
    def more(self) -> bool:
        """Whether there is anything that could follow a failure."""
        return self._repeats > 0 or not all(self._asked)

    def begin(self, now: float) -> None:
        """The current attempt goes out."""
        health = self._health(self.current.hop)
        self._permit = health.breaker.begin(now)
        if not self._asked[self.current.hop]:
            health.bucket.request(now)
        self._asked[self.current.hop] += 1
        self.made += 1

    # Outcomes

    def answered(self, now: float) -> None:
        """It works: real content came, or an answer that was wanted. The probe is over; whether it stays whole is another question."""
        health = self._health(self.current.hop)
        health.keys.good(self.current.key)
        if self._permit is not None and self._permit.probe:
            health.breaker.succeeded(now, self._permit)
            self._permit = self._permit._replace(probe=False)

    def succeeded(self, now: float) -> None:
        if self._permit is not None:
            health = self._health(self.current.hop)
            health.keys.good(self.current.key)
            health.breaker.succeeded(now, self._permit)
            self._permit = None

    def left(self) -> None:
        """The client left, or we end: nobody's failure."""
        if self._permit is not None:
            self._health(self.current.hop).breaker.left(self._permit)
            self._permit = None

    def lost(self, now: float, failure: Failure) -> Verdict:
        """It failed: the shares are told. What that means for another attempt is the caller's."""
        verdict = verdict_of(failure, self.current.key >= 0)
        permit, self._permit = self._permit, None
        if permit is None:
            return verdict
        breaker = self._health(self.current.hop).breaker
        if is_fault(failure):
            breaker.failed(now, permit)
        elif failure.code == "upstream_error":  # it answers, be it with a refusal
            breaker.succeeded(now, permit)
        else:
            breaker.left(permit)
        return verdict

    def failed(self, now: float, failure: Failure, told_s: float | None, *, again: bool = True) -> Try | None:
        """What comes next; None: nothing, the failure is the answer. `told_s`: when the upstream said that it may be asked again.

        `again`: False where the request cannot be sent once more.
        """
        verdict = self.lost(now, failure)
        self._rest_key(now, verdict, failure, told_s)
        if verdict is Verdict.FINAL or not again:
            return None
        following = self._following(now, verdict, told_s)
        if following is None:
            self.gave_up = True
            return None
        self.current = following
        return following

    def go_on(self, now: float, able: Callable[[RouteTarget], bool], *, elsewhere: bool) -> Try | None:
        """Who might go on with a stream that died in the middle: the same upstream, or the next that was not asked yet and is `able` to."""
        hop = self.current.hop
        if elsewhere:
            left = [at for at, asked in enumerate(self._asked) if not asked and able(self.plan.hops[at])]
            well = [at for at in left if self._health(at).breaker.allows(now)]
            if not left:
                return None
            hop = (well or left)[0]
        elif not able(self.plan.hops[hop]):
            return None
        delay = 0.0 if elsewhere else backoff_s(self._asked[hop], self._rules.base, self._rules.cap, self._chance())
        self.current = self._at(now, hop, delay)
        return self.current

    # Decisions

    def _following(self, now: float, verdict: Verdict, told_s: float | None) -> Try | None:
        rules, hop = self._rules, self.current.hop
        health = self._health(hop)
        beyond = self._next_hop(now)
        if verdict in (Verdict.LIMITED, Verdict.REFUSED_KEY, Verdict.ELSEWHERE) and health.keys.count > 1 and health.keys.free(now):
            if self._may_repeat(now, health):
                return self._at(now, hop, 0.0)
        elif verdict in (Verdict.AGAIN, Verdict.LIMITED):
            delay = self._delay(told_s)
            better = beyond is not None and (delay > rules.cap or not health.breaker.allows(now))
            if delay <= rules.retry_after_cap and not better and self._may_repeat(now + delay, health):
                return self._at(now, hop, delay)
        return None if beyond is None else self._at(now, beyond, 0.0)

    def _may_repeat(self, at: float, health: Health) -> bool:
        if self._repeats < 1 or at - self._began > self._rules.within or not health.bucket.take(at):
            return False
        self._repeats -= 1
        return True

    def _delay(self, told_s: float | None) -> float:
        if told_s is not None:
            return told_s * (1.0 + _SPREAD * self._chance()) if told_s <= self._rules.retry_after_cap else told_s
        return backoff_s(self._asked[self.current.hop], self._rules.base, self._rules.cap, self._chance())

    def _rest_key(self, now: float, verdict: Verdict, failure: Failure, told_s: float | None) -> None:
        keys, key, rules = self._health(self.current.hop).keys, self.current.key, self._rules
        self.refused_key = False
        if verdict is Verdict.LIMITED:
            keys.rest(key, now + (rules.key_rest if told_s is None else told_s))
        elif verdict is Verdict.REFUSED_KEY:
            self.refused_key = keys.refuse(key, now + rules.key_refused_rest)
        elif verdict is Verdict.ELSEWHERE and failure.http_status == 429:  # its quota is used up
            keys.rest(key, now + rules.key_refused_rest)

    def _first(self, now: float) -> int:
        hops = range(len(self.plan.hops))
        for hop in hops:
            health = self._health(hop)
            if health.breaker.allows(now) and health.keys.free(now):
                return hop
        return min(hops, key=lambda hop: self._health(hop).breaker.rests_until)  # all are in trouble: the least bad

    def _next_hop(self, now: float) -> int | None:
        """A target that was not asked yet: the first in order that is well, else the least bad."""
        left = [hop for hop, asked in enumerate(self._asked) if not asked and hop != self.current.hop]
        well = [hop for hop in left if self._health(hop).breaker.allows(now) and self._health(hop).keys.free(now)]
        return well[0] if well else min(left, key=lambda hop: self._health(hop).breaker.rests_until, default=None)

    def _at(self, now: float, hop: int, delay_s: float) -> Try:
        return Try(hop, self.plan.hops[hop], self._health(hop).keys.take(now + delay_s), delay_s)

    def _health(self, hop: int) -> Health:
        return self._healths[self.plan.hops[hop].upstream]
