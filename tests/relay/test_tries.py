"""Attempts where the policy meets IO, over a mocked transport: what is told, and what is passed on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import respx

from gateway.errors import Failure
from gateway.policy.attempts import Attempts, Health
from gateway.policy.routes import plan_of
from gateway.relay.refusals import REFUSAL_BYTES
from gateway.relay.tries import Tries
from gateway.settings import Retry, Settings, Upstream

pytestmark = pytest.mark.anyio
URL = "http://upstream.test/v1/chat/completions"


def tries(router: respx.Router, booked: list[str], again: Callable[[Failure], bool] = lambda failure: True, **rules: Any) -> Tries:
    settings = Settings((Upstream("only", "http://upstream.test"),), retry=Retry(**{"base": 0.001, **rules}))
    healths = {"only": Health(settings.upstreams[0], settings.retry, settings.breaker)}
    loop = asyncio.get_running_loop()
    attempts = Attempts(plan_of(settings, "m", 0.0), healths, settings.retry, lambda: 0.5, loop.time())
    transport = httpx.MockTransport(router.async_handler)
    return Tries(
        loop,
        attempts,
        lambda current: transport.handle_async_request(httpx.Request("POST", URL, content=b"{}")),
        1.0,
        lambda upstream, outcome: booked.append(outcome),
        again,
        lambda: 0.0,
    )


async def test_each_outcome_is_told_once() -> None:
    booked: list[str] = []
    with respx.mock(assert_all_called=False) as router:
        router.post(URL).mock(side_effect=[httpx.Response(503), httpx.ConnectError("nobody"), httpx.Response(200)])
        made = tries(router, booked)
        response = await made.head()
        assert isinstance(response, httpx.Response)
        assert response.status_code == 200
        assert booked == ["status_503", "upstream_unreachable"]
        made.over(None)
        made.over(None)
        made.left()
        assert booked == ["status_503", "upstream_unreachable", "ok"]


async def test_the_last_refusal_keeps_its_fields_and_every_byte() -> None:
    body = b'{"error": {"message": "no",  "n": 1.50}}'
    with respx.mock(assert_all_called=False) as router:
        router.post(URL).mock(return_value=httpx.Response(529, headers={"request-id": "r"}, content=body))
        response = await tries(router, []).head()
        assert isinstance(response, httpx.Response)
        assert (response.status_code, await response.aread(), response.headers["request-id"]) == (529, body, "r")
        assert response.headers["x-should-retry"] == "false"


async def test_a_refusal_too_large_to_be_looked_at_is_told_by_its_status() -> None:
    with respx.mock(assert_all_called=False) as router:
        large = httpx.Response(429, headers={"retry-after": "99"}, content=b"x" * (REFUSAL_BYTES + 1))
        router.post(URL).mock(return_value=large)
        failure = await tries(router, []).head()
        assert isinstance(failure, Failure)
        assert (failure.http_status, failure.body, (b"x-should-retry", b"false") in failure.headers) == (429, None, True)


async def test_what_cannot_be_sent_again_is_not() -> None:
    booked: list[str] = []
    with respx.mock(assert_all_called=False) as router:
        router.post(URL).mock(return_value=httpx.Response(503))
        response = await tries(router, booked, lambda failure: False).head()
        assert isinstance(response, httpx.Response)
        assert booked == ["status_503"]
        assert "x-should-retry" not in response.headers


async def test_a_failure_behind_the_head_is_judged_as_one_before_it() -> None:
    booked: list[str] = []
    with respx.mock(assert_all_called=False) as router:
        router.post(URL).mock(return_value=httpx.Response(200))
        made = tries(router, booked)
        await made.head()
        assert made.judge(Failure("upstream_empty", ""))
        assert not made.judge(Failure("upstream_empty", ""))  # there is none on its way
        await made.head()
        made.answered()
        made.over(Failure("upstream_incomplete", ""))
        assert booked == ["upstream_empty", "upstream_incomplete"]


async def test_one_that_leaves_is_nobodys_failure() -> None:
    booked: list[str] = []
    with respx.mock(assert_all_called=False) as router:
        router.post(URL).mock(return_value=httpx.Response(200))
        made = tries(router, booked)
        await made.head()
        made.left()
        made.over(Failure("upstream_reset", ""))
        assert booked == ["client_gone"]
