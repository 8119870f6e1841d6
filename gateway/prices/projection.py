"""What a month would cost, model by model: `decluster cost`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.dialects.base import Usage
from gateway.policy.cost import MILLION, Price, cost_usd
from gateway.prices.book import configured, priced
from gateway.settings import ModelPrice, Upstream

REQUEST_TOKENS = 4_000  # a projection has no requests; prices with steps go by a request's prompt, and most prompts are below every step


@dataclass(frozen=True, slots=True)
class Share:
    """Of all tokens: those of prompts. Of the prompts': those read from a cache."""

    prompt: float
    cached: float


@dataclass(frozen=True, slots=True)
class Row:
    model: str
    price: Price | None
    month_usd: float | None


def rows(asked: Iterable[tuple[Upstream, str]], prices: tuple[ModelPrice, ...], catalogue: bool, tokens: int, share: Share) -> list[Row]:
    """The dearest first, those without a price last. `asked`: models, each with the upstream that serves it."""
    found: dict[str, Row] = {}
    for upstream, model in asked:
        price = configured(prices, model) or (_of_the_catalogue(upstream, model) if catalogue else None)
        found.setdefault(model, Row(model, price, None if price is None else month_usd(price, tokens, share)))
    return sorted(found.values(), key=lambda row: (row.month_usd is None, -(row.month_usd or 0.0), row.model))


def month_usd(price: Price, tokens: int, share: Share) -> float:
    """As so many requests of one size."""
    prompt = round(REQUEST_TOKENS * share.prompt)
    usage = Usage(prompt, REQUEST_TOKENS - prompt, cache_read_tokens=round(prompt * share.cached))
    return cost_usd(price, usage) * tokens / REQUEST_TOKENS


def as_table(found: list[Row], tokens: int, share: Share) -> str:
    cached = f", {share.cached:.0%} of that from a cache" if share.cached else ""
    head = f"{tokens / MILLION:,g} million tokens a month, {share.prompt:.0%} of them prompt{cached}; prices in USD for a million tokens"
    width = max([len("model"), *(len(row.model) for row in found)])
    lines = [head, "", f"{'model':<{width}}  {'input':>9}  {'output':>9}  {'a month':>14}  source"]
    for row in found:
        if row.price is None or row.month_usd is None:
            lines.append(f"{row.model:<{width}}  {'?':>9}  {'?':>9}  {'?':>14}  no price: name it in cost.prices")
            continue
        price = row.price
        lines.append(
            f"{row.model:<{width}}  {price.input[0][1]:>9,.3f}  {price.output[0][1]:>9,.3f}  {row.month_usd:>14,.2f}  {price.source}"
        )
    return "\n".join(lines) + "\n"


def as_json(found: list[Row], tokens: int, share: Share) -> str:
    models = [
        {
            "model": row.model,
            "input_usd_per_million": None if row.price is None else row.price.input[0][1],
            "output_usd_per_million": None if row.price is None else row.price.output[0][1],
            "month_usd": None if row.month_usd is None else round(row.month_usd, 6),
            "source": None if row.price is None else row.price.source,
        }
        for row in found
    ]
    return json.dumps({"tokens": tokens, "prompt_share": share.prompt, "cached_share": share.cached, "models": models}, indent=2) + "\n"


def listed(provider: str) -> list[str]:
    """The models of a provider that the catalogue has, without those that it calls deprecated."""
    from gateway.prices.catalogue import answers

    return list(answers({"providers": [provider]})[provider])


def _of_the_catalogue(upstream: Upstream, model: str) -> Price | None:
    """In this process: a command ends soon and paces nothing."""
    from gateway.prices.catalogue import answers

    return priced(answers({"url": upstream.base_url, "provider": upstream.provider, "model": model}))
