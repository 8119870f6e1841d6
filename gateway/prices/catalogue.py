"""The catalogue of prices as a process of its own: lines of questions in, lines of answers out.

genai-prices keeps the prices of some thousand models as Python objects: 30 MB and 0.4 s of import, which a process that paces streams
must not spend. So it is asked here, in a child that lives for a while (`python -m gateway.prices.catalogue`). It ends with its input.

A question is {"url", "provider", "model"}; its answer {"input": [[above, usd], ...], "output": ..., ..., "source"} or null. A question
{"providers": [names]} is answered by the names of the models that each has, without those that it calls deprecated.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import Any, Final

# Ours -> theirs. What they price besides (searches, audio) no usage tells.
_RATES: Final = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "reasoning": "output_reasoning_mtok",
}


def answers(question: dict[str, Any]) -> Any:
    if "providers" in question:
        return {name: _models(name) for name in question["providers"]}
    return _price(question["url"], question["provider"], question["model"])


def _price(url: str, provider: str, model: str) -> dict[str, Any] | None:
    import genai_prices
    from genai_prices.data_snapshot import get_snapshot
    from genai_prices.types import TieredPrices

    for provider_id, provider_url in ((None, url), (provider, None)):
        if not provider_id and not provider_url:
            continue
        try:
            _, found = get_snapshot().find_provider_model(model, None, provider_id, provider_url)
            prices = found.get_prices(datetime.now(UTC))
        except LookupError:
            continue
        out: dict[str, Any] = {}
        for ours, theirs in _RATES.items():
            price = getattr(prices, theirs, None)
            if isinstance(price, TieredPrices):
                out[ours] = [[0, float(price.base)], *([tier.start, float(tier.price)] for tier in price.tiers)]
            elif price is not None:
                out[ours] = [[0, float(price)]]
        if "input" in out and "output" in out:
            return {**out, "source": f"genai-prices {genai_prices.__version__}"}
    return None


def _models(provider: str) -> list[str]:
    from genai_prices.data_snapshot import find_provider_by_id, get_snapshot

    found = find_provider_by_id(get_snapshot().providers, provider)
    return [] if found is None else [model.id for model in found.models if not model.deprecated]


def main() -> None:
    os.nice(10)  # streams go first
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answers(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
