"""Where a request may go: from its model's name to an ordered list of targets. Pure: chance is passed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from gateway.settings import Route, RouteTarget, Settings

HOPS_AT_MOST: Final = 16  # of one request


@dataclass(frozen=True, slots=True)
class Plan:
    """hops: in the order in which they are tried. main: how many of them are the route's targets; the others are its fallbacks."""

    hops: tuple[RouteTarget, ...]
    main: int
    route: Route | None = None


def route_of(routes: Sequence[Route], model: str | None) -> Route | None:
    """The first whose pattern fits."""
    if model is None:
        return None
    return next((route for route in routes if any(fnmatchcase(model, pattern) for pattern in route.models)), None)


def plan_of(settings: Settings, model: str | None, chance: float, *, alone: bool = False) -> Plan:
    """`alone`: only the first place, for requests that another upstream could not answer (a file's id is known where it was made)."""
    route = route_of(settings.routes, model)
    if route is None:
        upstreams = settings.upstreams[:1] if alone or settings.routes else settings.upstreams[:HOPS_AT_MOST]
        return Plan(tuple(RouteTarget(upstream.name) for upstream in upstreams), 1)
    main = _drawn(route.targets, chance)
    hops = (main[:1] if alone else (*main, *route.fallbacks))[:HOPS_AT_MOST]
    return Plan(hops, min(len(main), len(hops)), route)


def _drawn(targets: Sequence[RouteTarget], chance: float) -> tuple[RouteTarget, ...]:
    """One by weight, the others behind it in their order; those of weight 0 only behind."""
    mark = chance * sum(target.weight for target in targets)
    for at, target in enumerate(targets):
        if mark < target.weight:
            return (target, *targets[:at], *targets[at + 1 :])
        mark -= target.weight
    return tuple(targets)
