"""The rules between routes and upstreams: names that exist, and what a route asks of an upstream that it can do."""

from __future__ import annotations

from collections.abc import Callable

from gateway.settings import Route, RouteTarget, Settings, Upstream

Report = Callable[..., None]


def check_routes(settings: Settings, report: Report) -> None:
    """`report(path, message, *others)`: others are the settings on which the rule leans."""
    upstreams = {upstream.name: upstream for upstream in settings.upstreams}
    for index, upstream in enumerate(settings.upstreams):
        if upstream.keys and "authorization" in dict(upstream.headers):
            report(f"upstreams[{index}].headers.authorization", "is what api_key makes already: take one of the two out")
    for index, route in enumerate(settings.routes):
        _check_route(route, f"routes[{index}]", upstreams, report)


def _check_route(route: Route, place: str, upstreams: dict[str, Upstream], report: Report) -> None:
    for name, listed in (("targets", route.targets), ("fallbacks", route.fallbacks)):
        for at, target in enumerate(listed):
            if target.upstream not in upstreams:
                known = ", ".join(upstreams)
                report(f"{place}.{name}[{at}].upstream", f"names no upstream; there are {known}", "upstreams")
    if route.targets and not any(target.weight for target in route.targets):
        report(f"{place}.targets", "all have a weight of 0, so that none would be taken: give one a weight")
    if route.on_cut == "fallback" and not route.fallbacks:
        report(f"{place}.on_cut", "is fallback, but the route has no fallbacks")
    elif route.on_cut != "error" and not any(_can(route, target, upstreams) for target in _asked(route)):
        wanted = "cut.resume" if route.on_cut == "resume" else "cut.prefill"
        report(f"{place}.on_cut", f"is {route.on_cut}, but no upstream that would be asked says in {wanted} how that is done", "upstreams")


def _asked(route: Route) -> tuple[RouteTarget, ...]:
    return route.fallbacks if route.on_cut == "fallback" else route.targets


def _can(route: Route, target: RouteTarget, upstreams: dict[str, Upstream]) -> bool:
    upstream = upstreams.get(target.upstream)
    if upstream is None:  # which is reported already
        return True
    return (upstream.cut.resume if route.on_cut == "resume" else upstream.cut.prefill) != "none"
