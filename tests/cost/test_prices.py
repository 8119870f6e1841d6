"""Tokens times prices, and how far a budget reaches: pure, to the cent."""

from __future__ import annotations

import pytest

from gateway.dialects.base import Usage
from gateway.policy.cost import Account, Price, Spending, cost_usd, estimated_input_tokens

PLAIN = Price(((0, 2.0),), ((0, 10.0),))
FULL = Price(((0, 2.0),), ((0, 10.0),), ((0, 0.5),), ((0, 2.5),), ((0, 4.0),), ((0, 3.0),))
STEPPED = Price(((0, 1.0), (200_000, 2.0)), ((0, 10.0), (200_000, 15.0)))
M = 1_000_000


def test_prompt_and_answer_have_prices_of_their_own() -> None:
    assert cost_usd(PLAIN, Usage(M, M)) == pytest.approx(12.0)
    assert cost_usd(PLAIN, Usage(None, None)) == 0.0


def test_cached_tokens_are_a_part_of_the_prompt_and_cheaper() -> None:
    assert cost_usd(FULL, Usage(M, 0, cache_read_tokens=M // 2)) == pytest.approx(1.0 + 0.25)
    assert cost_usd(PLAIN, Usage(M, 0, cache_read_tokens=M // 2)) == pytest.approx(2.0)


def test_writing_a_cache_costs_more_and_for_an_hour_more_again() -> None:
    assert cost_usd(FULL, Usage(M, 0, cache_write_tokens=M // 2)) == pytest.approx(1.0 + 1.25)
    assert cost_usd(FULL, Usage(M, 0, cache_write_tokens=M // 2, cache_write_1h_tokens=M // 2)) == pytest.approx(1.0 + 2.0)


def test_reasoning_is_a_part_of_the_answer_with_a_price_of_its_own_where_it_has_one() -> None:
    assert cost_usd(FULL, Usage(0, M, reasoning_tokens=M // 2)) == pytest.approx(5.0 + 1.5)
    assert cost_usd(PLAIN, Usage(0, M, reasoning_tokens=M // 2)) == pytest.approx(10.0)


def test_reasoning_that_is_counted_beside_the_answer_is_paid_too() -> None:
    assert cost_usd(PLAIN, Usage(0, 100, reasoning_tokens=900, unlisted_tokens=900)) == pytest.approx(0.01)


@pytest.mark.parametrize(("tokens", "usd"), [(200_000, 0.2), (200_001, 0.400002)])
def test_a_long_prompt_is_dearer_as_a_whole(tokens: int, usd: float) -> None:
    assert cost_usd(STEPPED, Usage(tokens, 0)) == pytest.approx(usd)


def test_more_cached_than_there_is_cannot_make_a_cost_negative() -> None:
    assert cost_usd(FULL, Usage(10, 5, cache_read_tokens=100, cache_write_tokens=100, reasoning_tokens=100)) >= 0.0


def test_a_prompt_is_guessed_by_its_text_and_its_files_by_the_page() -> None:
    text = b'{"messages":[{"content":"' + b"word " * 400 + b'"}]}'
    assert estimated_input_tokens(text) == pytest.approx(500, rel=0.05)
    image = b'{"url":"data:image/png;base64,' + b"A" * 4_000_000 + b'"}'
    assert 1_000 <= estimated_input_tokens(image) < 1_010


def test_a_request_ends_when_its_own_budget_is_used_up_and_not_before() -> None:
    spending = Spending(PLAIN, 1000, 0.012, None)  # 0.002 for the prompt, so 1,000 tokens of answer
    assert [spending.spent(tokens) for tokens in (0, 999, 1000)] == [None, None, None]
    assert spending.spent(1001) == "request"


def test_streams_that_run_at_once_draw_on_one_account() -> None:
    account = Account(0.03)
    first, second = (Spending(PLAIN, 0, None, account) for _ in range(2))
    assert first.spent(1500) is None
    assert second.spent(1499) is None
    assert second.spent(1501) == "day"
    first.over()
    assert second.spent(1502) is None
    account.booked_usd += 0.015
    assert second.spent(1503) == "day"
    second.over()
    assert account.left_usd == pytest.approx(0.015)


def test_what_is_over_is_not_counted_twice() -> None:
    account = Account(1.0)
    spending = Spending(PLAIN, 1000, None, account)
    for tokens in (10, 500, 500, 800):
        spending.spent(tokens)
    assert account.running_usd == pytest.approx(0.002 + 0.008)
    spending.over()
    spending.over()
    assert account.running_usd == pytest.approx(0.0)
