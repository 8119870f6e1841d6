"""What is asked in a minute: a sliding window of requests and of tokens, in memory, on a virtual clock."""

from __future__ import annotations

import pytest

from gateway.server.rates import Exceeded, Rates, Window

from .conftest import Clock

pytestmark = pytest.mark.anyio
REQUESTS = Window("clients/a/requests", "requests", 3)
TOKENS = Window("clients/a/tokens", "tokens", 1000)


async def asked(rates: Rates, times: int) -> list[bool]:
    return [await rates.take([REQUESTS], 0) is None for _ in range(times)]


async def test_so_many_requests_a_minute_and_no_more(clock: Clock) -> None:
    rates = Rates(None)
    assert await asked(rates, 5) == [True, True, True, False, False]


async def test_the_window_slides(clock: Clock) -> None:
    rates = Rates(None)
    assert await asked(rates, 3) == [True] * 3
    clock.now += 60.0  # they are all still within the last minute
    assert await asked(rates, 1) == [False]
    clock.now += 15.0  # a quarter of the minute later one of three has left it
    assert await asked(rates, 2) == [True, False]
    clock.now += 120.0
    assert await asked(rates, 4) == [True, True, True, False]


async def test_a_refusal_says_the_limit_and_when_to_ask_again(clock: Clock) -> None:
    rates = Rates(None)
    await asked(rates, 3)
    exceeded = await rates.take([REQUESTS], 0)
    assert isinstance(exceeded, Exceeded)
    fields = dict(exceeded.headers)
    assert fields[b"x-ratelimit-limit-requests"] == b"3"
    assert fields[b"x-ratelimit-remaining-requests"] == b"0"
    seconds = int(fields[b"retry-after"])
    assert fields[b"x-ratelimit-reset-requests"] == b"%ds" % seconds
    assert 1 <= seconds <= 120


async def test_tokens_are_counted_when_they_are_known(clock: Clock) -> None:
    rates = Rates(None)
    assert await rates.take([TOKENS], 100) is None
    await rates.done([TOKENS], 100, 950)
    exceeded = await rates.take([TOKENS], 100)
    assert exceeded is not None
    assert dict(exceeded.headers)[b"x-ratelimit-remaining-tokens"] == b"50"
    assert await rates.take([TOKENS], 50) is None


async def test_prompts_that_run_at_once_are_counted_against_each_other(clock: Clock) -> None:
    rates = Rates(None)
    assert [await rates.take([TOKENS], 400) is None for _ in range(3)] == [True, True, False]
    await rates.done([TOKENS], 400, 0)
    assert await rates.take([TOKENS], 400) is None


async def test_what_was_taken_above_the_limit_is_owed(clock: Clock) -> None:
    rates = Rates(None)
    assert await rates.take([TOKENS], 10) is None
    await rates.done([TOKENS], 10, 1700)
    clock.now += 60.0
    minutes = 0
    while await rates.take([TOKENS], 10) is not None:
        clock.now += 15.0
        minutes += 1
        assert minutes < 20
    # 1,700 tokens of 1,000 a minute are more than a minute and a half of it
    assert clock.now - 1_800_000_000.0 >= 100.0


async def test_a_prompt_larger_than_the_limit_passes_where_nothing_else_is_asked(clock: Clock) -> None:
    rates = Rates(None)
    assert await rates.take([TOKENS], 5000) is None
    assert await rates.take([TOKENS], 5000) is not None


async def test_windows_do_not_share_their_counts(clock: Clock) -> None:
    rates = Rates(None)
    await asked(rates, 3)
    assert await rates.take([Window("clients/b/requests", "requests", 3)], 0) is None


async def test_money_is_counted_by_the_day(clock: Clock) -> None:
    rates = Rates(None)
    for usd in (0.25, 0.000001, 0.5):
        await rates.spend("a", "2027-01-15", usd)
    assert await rates.spent_usd("a", "2027-01-15") == pytest.approx(0.750001)
    assert await rates.spent_usd("a", "2027-01-16") == 0.0
    assert await rates.spent_usd("b", "2027-01-15") == 0.0
