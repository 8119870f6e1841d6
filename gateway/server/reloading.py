"""The configuration read anew while streams run: what it changes holds for requests that come from now on.

Running streams go on under what they began with. Upstreams that are as before keep their breakers and keys' rests; some settings are part
of what was made at the start, and take a restart: they are named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway import logs
from gateway.clock import Ticker
from gateway.policy.attempts import Health
from gateway.server.admission import Admission
from gateway.server.gateway import Gateway
from gateway.server.spending import Costs
from gateway.settings import Settings
from gateway.upstream.targets import Target

# The socket and its server, recordings and their store, the traces' file, the spans' exporter: made once.
HELD: Final = ("listen", "shutdown", "resume", "trace", "telemetry")


def adopt(gateway: Gateway, settings: Settings) -> list[str]:
    """The names of the sections that were changed and take a restart; they stay as they were."""
    before = gateway.settings
    held = [name for name in HELD if getattr(before, name) != getattr(settings, name)]
    settings = replace(settings, **{name: getattr(before, name) for name in held})
    old = {upstream.name: upstream for upstream in before.upstreams}
    same_rules = (before.retry, before.breaker) == (settings.retry, settings.breaker)
    gateway.healths = {
        upstream.name: gateway.healths[upstream.name]
        if same_rules and old.get(upstream.name) == upstream
        else Health(upstream, settings.retry, settings.breaker)
        for upstream in settings.upstreams
    }
    gateway.targets = [Target.of(upstream, bool(settings.clients)) for upstream in settings.upstreams]
    gateway.places = {target.upstream.name: target for target in gateway.targets}
    for upstream in settings.upstreams:
        gateway.metrics.know(iter(upstream.models))
    if before.pacing.frame != settings.pacing.frame:
        gateway.ticker = Ticker(gateway.loop, settings.pacing.frame)
    if (before.admission, before.clients, before.cost) != (settings.admission, settings.clients, settings.cost):
        gateway.outgrown += [gateway.costs, gateway.admission]  # those who were let in by them leave by them
        gateway.admission = Admission(settings, gateway.loop)
        gateway.costs = Costs(settings, gateway.loop, gateway.metrics, gateway.admission.rates)
    if before.log != settings.log:
        logs.setup(settings.log.level, settings.log.format)
    gateway.settings = settings
    return held
