"""The price of a model: from the configuration, from the catalogue's own process, and what is left when that cannot be asked."""

from __future__ import annotations

import asyncio
import sys

import pytest

from gateway.dialects.base import Usage
from gateway.policy.cost import cost_usd
from gateway.prices import book
from gateway.prices.book import Book
from gateway.settings import Cost, ModelPrice, Upstream

pytestmark = pytest.mark.anyio
OPENAI = Upstream("openai", "https://api.openai.com/v1")
ANTHROPIC = Upstream("claude", "http://127.0.0.1:1/v1", provider="anthropic")
LOCAL = Upstream("local", "http://127.0.0.1:8000/v1", provider="vllm")


async def test_the_catalogue_knows_the_models_of_providers_and_what_a_cache_saves() -> None:
    found = Book(Cost(), asyncio.get_running_loop())
    try:
        mini, sonnet, local = [
            await found.price(*asked) for asked in ((OPENAI, "gpt-4o-mini"), (ANTHROPIC, "claude-sonnet-4-5"), (LOCAL, "x"))
        ]
    finally:
        await found.close()
    assert mini is not None
    assert sonnet is not None
    assert local is None
    assert mini.source.startswith("genai-prices ")
    assert cost_usd(mini, Usage(1000, 1000)) == pytest.approx(0.00075)
    assert cost_usd(sonnet, Usage(1000, 0, cache_read_tokens=1000)) < cost_usd(sonnet, Usage(1000, 0)) / 5
    assert cost_usd(sonnet, Usage(1000, 0, cache_write_tokens=1000)) > cost_usd(sonnet, Usage(1000, 0))


async def test_the_configuration_is_above_the_catalogue_and_its_first_entry_counts() -> None:
    prices = (ModelPrice(("gpt-4o-mini", "gpt-4o-m*"), 1.0, 2.0), ModelPrice(("*",), 0.0, 0.0))
    found = Book(Cost(prices=prices), asyncio.get_running_loop())
    price = await found.price(OPENAI, "gpt-4o-mini")
    assert price is not None
    assert (price.input, price.source) == (((0, 1.0),), "configuration")
    free = await found.price(OPENAI, "anything")
    assert free is not None
    assert cost_usd(free, Usage(1000, 1000)) == 0.0


async def test_an_answer_is_remembered_so_that_a_stream_need_not_wait() -> None:
    found = Book(Cost(), asyncio.get_running_loop())
    try:
        assert found.known(OPENAI, "gpt-4o") == (False, None)
        price = await found.price(OPENAI, "gpt-4o")
        assert found.known(OPENAI, "gpt-4o") == (True, price)
        assert await found.price(OPENAI, "no-such-model") is None
        assert found.known(OPENAI, "no-such-model") == (True, None)
    finally:
        await found.close()


async def test_nothing_of_the_catalogue_is_loaded_into_this_process() -> None:
    code = "import asyncio, sys\nfrom gateway.prices.book import Book\nfrom gateway.settings import Cost, Upstream\n"
    code += "async def main():\n  b = Book(Cost(), asyncio.get_running_loop())\n"
    code += "  p = await b.price(Upstream('o', 'https://api.openai.com'), 'gpt-4o')\n  await b.close()\n"
    code += "  print(p is not None, 'pydantic' in sys.modules, 'genai_prices' in sys.modules)\nasyncio.run(main())"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert said.split() == [b"True", b"False", b"False"]


async def test_its_process_gets_no_secrets_and_goes_when_it_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "OPENAI_API_KEY" not in book._ENVIRONMENT
    found = Book(Cost(), asyncio.get_running_loop())
    await found.price(OPENAI, "gpt-4o")
    process = found._process
    assert process is not None
    await found.close()
    assert process.returncode is not None


async def test_a_catalogue_that_is_switched_off_is_not_asked() -> None:
    found = Book(Cost(catalogue=False), asyncio.get_running_loop())
    assert found.known(OPENAI, "gpt-4o") == (True, None)
    assert await found.price(OPENAI, "gpt-4o") is None
    assert found._process is None


async def test_a_catalogue_that_dies_is_told_once_and_asked_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(book.sys, "executable", "/nonexistent/python")
    found = Book(Cost(), asyncio.get_running_loop())
    assert [await found.price(OPENAI, model) for model in ("gpt-4o", "gpt-5")] == [None, None]
    assert len([record for record in caplog.records if "catalogue" in record.getMessage()]) == 1
    await found.close()
