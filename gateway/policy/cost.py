"""What an answer costs: tokens times prices, and how far a budget reaches while a stream runs.

Owns the arithmetic. It must not know where a price comes from. Prices are US dollars for a million tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.dialects.base import Usage

Rate = tuple[tuple[int, float], ...]  # (input tokens above which it holds, price), rising; the first holds from 0

MILLION: Final = 1_000_000
TOKEN_BYTES: Final = 4  # of a prompt's text: what English has; other languages have less, so that their prompts are guessed low
FILE_TOKENS: Final = 1_000  # what an image or a page costs about, however many bytes carry it
_FILE: Final = re.compile(rb'"(?:data:[^"]{0,128};base64,)?[A-Za-z0-9+/=_-]{2048,}"')


@dataclass(frozen=True, slots=True)
class Price:
    """Rates; None where there is none of its own: reading a cache then costs as input, writing one too, reasoning as output."""

    input: Rate
    output: Rate
    cache_read: Rate | None = None
    cache_write: Rate | None = None
    cache_write_1h: Rate | None = None
    reasoning: Rate | None = None
    source: str = ""

    def input_usd(self, tokens: float) -> float:
        """A prompt of which nothing is cached."""
        return tokens * _at(self.input, tokens) / MILLION

    def output_token_usd(self, input_tokens: float) -> float:
        """A token of the answer."""
        return _at(self.output, input_tokens) / MILLION


def cost_usd(price: Price, usage: Usage) -> float:
    prompt = usage.input_tokens or 0
    read = min(usage.cache_read_tokens, prompt)
    write = min(usage.cache_write_tokens, prompt - read)
    long_write = min(usage.cache_write_1h_tokens, write)
    answer = (usage.output_tokens or 0) + usage.unlisted_tokens
    thought = min(usage.reasoning_tokens, answer)
    parts = (
        (prompt - read - write, price.input),
        (read, price.cache_read or price.input),
        (write - long_write, price.cache_write or price.input),
        (long_write, price.cache_write_1h or price.cache_write or price.input),
        (answer - thought, price.output),
        (thought, price.reasoning or price.output),
    )
    return sum(tokens * _at(rate, prompt) for tokens, rate in parts) / MILLION


def estimated_input_tokens(body: bytes) -> int:
    """A request's prompt, roughly, from its bytes: files in it count as a page each. Good enough to stop a runaway, never a bill."""
    files = 0
    if len(body) > 2048:
        body, files = _FILE.subn(b"", body)
    return len(body) // TOKEN_BYTES + files * FILE_TOKENS


def _at(rate: Rate, input_tokens: float) -> float:
    """The price that holds for a prompt of this size."""
    found = rate[0][1]
    for above, price in rate:
        if input_tokens > above:
            found = price
    return found


class Account:
    """What one client may spend in a day. booked: for answers that are over. running: estimated, of those that run now."""

    __slots__ = ("booked_usd", "budget_usd", "running_usd")

    def __init__(self, budget_usd: float) -> None:
        self.budget_usd = budget_usd
        self.booked_usd = 0.0
        self.running_usd = 0.0

    @property
    def left_usd(self) -> float:
        return self.budget_usd - self.booked_usd - self.running_usd


class Spending:
    """One answer's cost while it runs: its prompt, then each token that comes.

    `most_usd`: this request's own cap. `account`: its client's, which other answers draw on at the same time.
    """

    __slots__ = ("_account", "_input_usd", "_most_usd", "_token_usd", "_told_usd")

    def __init__(self, price: Price, input_tokens: float, most_usd: float | None, account: Account | None) -> None:
        self._input_usd = price.input_usd(input_tokens)
        self._token_usd = price.output_token_usd(input_tokens)
        self._most_usd = most_usd
        self._account = account
        self._told_usd = 0.0

    def spent(self, tokens: float) -> str | None:
        """`tokens` of the answer have come. Which budget is used up now: "request", "day", or none."""
        usd = self._input_usd + tokens * self._token_usd
        account = self._account
        if account is not None:
            account.running_usd += usd - self._told_usd
        self._told_usd = usd
        if self._most_usd is not None and usd > self._most_usd:
            return "request"
        return "day" if account is not None and account.left_usd < 0.0 else None

    def over(self) -> None:
        """The answer is over: what it cost is booked elsewhere."""
        if self._account is not None:
            self._account.running_usd -= self._told_usd
        self._told_usd = 0.0
