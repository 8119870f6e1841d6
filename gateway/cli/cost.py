"""`decluster cost`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.cli.common import EXIT_FAILURE, EXIT_OK, EXIT_USAGE, Parser, add, complain

if TYPE_CHECKING:
    from gateway.settings import Settings, Upstream

_WILD = set("*?[")  # of a pattern, which is no model's name
_PROVIDERS = ("openai", "anthropic")  # whose models are shown where none is named anywhere


def add_cost(commands: argparse._SubParsersAction[Parser]) -> None:
    cost = add(
        commands,
        "cost",
        _cost,
        "project a month's cost by model, from maintained prices and those of the configuration",
        """  decluster cost gpt-5-mini claude-sonnet-4-5 --tokens-per-month 50000000
  decluster cost --config decluster.yaml            the models that the configuration names
  decluster cost --provider google --cached-share 0.5""",
    )
    cost.add_argument("models", nargs="*", metavar="MODEL", help="models to project; without any, those of the configuration")
    cost.add_argument(
        "--tokens-per-month", type=_tokens, default=10_000_000, metavar="N", help="prompt and answer together (default %(default)s)"
    )
    cost.add_argument("--prompt-share", type=_share, default=0.75, metavar="S", help="share of the prompts in that (default %(default)s)")
    cost.add_argument("--cached-share", type=_share, default=0.0, metavar="S", help="share of a prompt read from a cache (default none)")
    cost.add_argument("--provider", action="append", metavar="NAME", help="all models of this provider; whose prices MODEL is to have")
    cost.add_argument("--config", metavar="FILE", help="the settings, with cost.prices and the upstreams' models")
    cost.add_argument("--json", action="store_true", help="for programs")


def _cost(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway import config
    from gateway.prices import projection
    from gateway.settings import Cost

    settings = None
    try:
        file = arguments.config or environ.get("DECLUSTER_CONFIG")
        if file:
            settings = config.load(file, environ)
    except config.ConfigError as error:
        for line in error.lines():
            complain(arguments, line)
        return EXIT_USAGE
    cost = settings.cost if settings is not None else Cost()
    share = projection.Share(arguments.prompt_share, arguments.cached_share)
    asked = _asked(arguments, settings)
    if not asked:
        complain(arguments, "no model is named: name some, or a --provider")
        return EXIT_FAILURE
    found = projection.rows(asked, cost.prices, cost.catalogue, arguments.tokens_per_month, share)
    show = projection.as_json if arguments.json else projection.as_table
    sys.stdout.write(show(found, arguments.tokens_per_month, share))
    return EXIT_OK if any(row.price is not None for row in found) else EXIT_FAILURE


def _asked(arguments: argparse.Namespace, settings: Settings | None) -> list[tuple[Upstream, str]]:
    """Models, each with whose prices are to be looked up."""
    from gateway.prices import projection
    from gateway.settings import Upstream

    named = [Upstream(name, "", provider=name) for name in arguments.provider or ()]
    if arguments.models:
        places = named or (list(settings.upstreams) if settings is not None else [Upstream(name, "", provider=name) for name in _guessed()])
        return [(_serving(places, model), model) for model in arguments.models]
    if settings is not None and not named:
        found = _configured(settings)
        if found:
            return found
        named = [Upstream(name, "", provider=name) for name in dict.fromkeys(upstream.provider for upstream in settings.upstreams)]
    named = named or [Upstream(name, "", provider=name) for name in _PROVIDERS]
    return [(upstream, model) for upstream in named for model in projection.listed(upstream.provider)]


def _configured(settings: Settings) -> list[tuple[Upstream, str]]:
    """The models that a configuration names one by one."""
    by_name = {upstream.name: upstream for upstream in settings.upstreams}
    found = [(upstream, model) for upstream in settings.upstreams for model in upstream.models]
    for route in settings.routes:
        for target in (*route.targets, *route.fallbacks):
            found += [(by_name[target.upstream], model) for model in ((target.model,) if target.model else route.models)]
    found += [(settings.upstreams[0], model) for entry in settings.cost.prices for model in entry.models]
    return [(upstream, model) for upstream, model in found if not _WILD & set(model)]


def _serving(places: list[Upstream], model: str) -> Upstream:
    """The first of them whose provider has such a model."""
    from gateway.prices.catalogue import answers

    for place in places:
        if answers({"url": place.base_url, "provider": place.provider, "model": model}) is not None:
            return place
    return places[0]


def _guessed() -> tuple[str, ...]:
    return ("openai", "anthropic", "google", "mistral", "deepseek", "x-ai", "groq", "openrouter")


def _tokens(text: str) -> int:
    digits = text.replace("_", "").replace(",", "")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 15:
        raise argparse.ArgumentTypeError("a whole number of tokens, such as 50000000")
    return int(digits)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise argparse.ArgumentTypeError("a share is a number from 0 to 1")
    return share
