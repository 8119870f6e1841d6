"""The attempts of one request where the policy meets IO: each is waited for, opened and judged; `policy/attempts` says what follows.

Owns the telling of each attempt's outcome: to the policy, once, and to the book. Used by streams (relay/pursuit) and by plain requests.

Invariants: what is answered with is the last attempt's own; a client that leaves while an attempt waits or runs ends it at once and is
nobody's failure.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import ceil
from typing import Final

import httpx

from gateway.errors import Failure
from gateway.policy.attempts import Attempts, Try
from gateway.policy.classify import Verdict, of_status
from gateway.policy.retry_after import told_in_error_s, told_wait_s
from gateway.relay.attempt import attempt
from gateway.relay.refusals import held
from gateway.wire.headers import Fields, first

LOG: Final = logging.getLogger("decluster")
_SDK_WAITS_S: Final = 60.0  # the SDKs obey a Retry-After up to this; a longer one they ignore, and come back at once
_NO_RETRY: Final = (b"x-should-retry", b"false")


class Tries:
    """`opener`: sends the request for an attempt. `book(upstream, outcome)`: counts one. `again`: whether the request can be sent once
    more after this failure.

    epoch_s: the time of day, for dates in headers. `current`: the attempt that is on its way, or was the last.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        attempts: Attempts,
        opener: Callable[[Try], Awaitable[httpx.Response]],
        headers_s: float | None,
        book: Callable[[str, str], None],
        again: Callable[[Failure], bool] = lambda failure: True,
        epoch_s: Callable[[], float] = time.time,
    ) -> None:
        self.attempts = attempts
        self._loop = loop
        self._opener = opener
        self._headers_s = headers_s
        self._book = book
        self._again = again
        self._epoch_s = epoch_s
        self._fields: Fields = []
        self._told_s: float | None = None
        self.open = False  # an attempt is on its way that was not judged yet
        self.waiting = False  # for the time to come at which the next is made
        self.once = False  # what is tried is to go on with a stream: nothing follows its failure but by `Attempts.go_on`

    @property
    def current(self) -> Try:
        return self.attempts.current

    async def head(self, renew: Callable[[], None] | None = None) -> httpx.Response | Failure:
        """The head of the answer to stream or to pass on, after as many attempts as it takes; or what there is to tell instead.

        `renew`: called where one failed and another follows.
        """
        self.waiting = False
        while True:
            current = self.current
            if current.delay_s:
                self.waiting = True
                await asyncio.sleep(current.delay_s)
                self.waiting = False
            self.attempts.begin(self._loop.time())
            self.open = True
            self._fields, self._told_s = [], None
            answer = await attempt(lambda: self._opener(self.current), self._headers_s)
            if isinstance(answer, Failure):
                failure = answer
            else:
                self._fields = answer.headers.raw
                if answer.status_code < 400:
                    return answer
                answer, failure = await self._refused(answer)
            if self.judge(failure):
                if renew is not None:
                    renew()
                continue
            if isinstance(answer, Failure):
                return self.last_words(failure)
            if self._unwanted():
                answer.headers["x-should-retry"] = "false"
            return answer

    async def _refused(self, response: httpx.Response) -> tuple[httpx.Response | Failure, Failure]:
        """What is passed on of a refusal if nothing follows it, and the failure that it is. One that is final streams on as it came."""
        status = response.status_code
        failure = Failure("upstream_error", f"The upstream answered {status}.", status)
        if not self.attempts.more or of_status(status, self.current.key >= 0) is Verdict.FINAL:
            return response, failure
        whole = await held(response)
        if whole is None:
            return failure, failure
        return whole[0], replace(failure, body=whole[1])

    def judge(self, failure: Failure) -> bool:
        """The attempt that is on its way failed before any content. Whether another follows: then `head` opens it."""
        if not self.open:
            return False
        if self.once:
            self.over(failure)
            return False
        self.open = False
        self._told_s = told_wait_s(self._fields, self._epoch_s())
        if self._told_s is None:
            self._told_s = told_in_error_s(failure.body)
        current = self.current
        self._count(outcome_of(failure))
        may = self._again(failure) and (first(self._fields, b"x-should-retry") or b"").lower() != b"false"
        following = self.attempts.failed(self._loop.time(), failure, self._told_s, again=may)
        if self.attempts.refused_key:
            LOG.warning(
                "an upstream refuses one of its keys; it rests",
                extra={"upstream": current.target.upstream, "key": current.key + 1, "status": failure.http_status},
            )
        return following is not None

    def last_words(self, failure: Failure) -> Failure:
        """The failure as the client is told it, with what keeps its SDK from doing all this once more."""
        extra = list(failure.headers)
        named = {name.lower() for name, _ in (*extra, *self._fields)}
        if self._told_s is not None and failure.http_status in (429, 503) and not named & {b"retry-after", b"retry-after-ms"}:
            extra.append((b"retry-after", b"%d" % ceil(self._told_s)))
        if self._unwanted() and _NO_RETRY not in extra:
            extra.append(_NO_RETRY)
        return replace(failure, headers=tuple(extra)) if len(extra) > len(failure.headers) else failure

    def _unwanted(self) -> bool:
        """Whether the client had better not repeat at once what was repeated here; where it was told a time it goes by that."""
        told_s = self._told_s
        return self.attempts.gave_up and not (told_s is not None and 0 < told_s <= _SDK_WAITS_S)

    # How it went on

    def answered(self) -> None:
        """Real content came: from here on no other attempt can replace this one."""
        if self.open:
            self.attempts.answered(self._loop.time())

    def over(self, failure: Failure | None) -> None:
        """The answer is over: whole, or cut short by this failure."""
        if not self.open:
            return
        self.open = False
        if failure is None:
            self._count("ok")
            self.attempts.succeeded(self._loop.time())
        else:
            self._count(outcome_of(failure))
            self.attempts.lost(self._loop.time(), failure)

    def left(self) -> None:
        """The client has gone."""
        if self.open:
            self.open = False
            self._count("client_gone")
            self.attempts.left()

    def _count(self, outcome: str) -> None:
        self._book(self.current.target.upstream, outcome)


def outcome_of(failure: Failure) -> str:
    """The label of a failed attempt: its code, or the status that the upstream gave it."""
    return f"status_{failure.http_status}" if failure.code == "upstream_error" else failure.code
