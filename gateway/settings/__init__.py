"""The effective settings, as values: what each is, its unit, its default and the reason for that default.

Pure: no file is read here (gateway/config does), so that every layer may take its part of these by constructor. A module a subject; a new
setting is a field with its range and reason in one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gateway.settings.clients import Admission, Client, Cost, ModelLimit, ModelPrice
from gateway.settings.marks import Cap, Member, Range, Text
from gateway.settings.process import Listen, Log, Resume, Shutdown, Telemetry, Tracing
from gateway.settings.streams import Clocks, Heartbeat, Limits, MaxLag, Pacing, Reasoning
from gateway.settings.upstreams import Cut, Retry, Route, RouteTarget, Tripping, Upstream

__all__ = [
    "Admission",
    "Cap",
    "Client",
    "Clocks",
    "Cost",
    "Cut",
    "Heartbeat",
    "Limits",
    "Listen",
    "Log",
    "MaxLag",
    "Member",
    "ModelLimit",
    "ModelPrice",
    "Pacing",
    "Range",
    "Reasoning",
    "Resume",
    "Retry",
    "Route",
    "RouteTarget",
    "Settings",
    "Shutdown",
    "Telemetry",
    "Text",
    "Tracing",
    "Tripping",
    "Upstream",
]


@dataclass(frozen=True, slots=True)
class Settings:
    upstreams: tuple[Upstream, ...]
    routes: tuple[Route, ...] = ()
    retry: Retry = field(default_factory=Retry)
    breaker: Tripping = field(default_factory=Tripping)
    listen: Listen = field(default_factory=Listen)
    pacing: Pacing = field(default_factory=Pacing)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    reasoning: Reasoning = field(default_factory=Reasoning)
    clocks: Clocks = field(default_factory=Clocks)
    limits: Limits = field(default_factory=Limits)
    clients: tuple[Client, ...] = ()
    admission: Admission = field(default_factory=Admission)
    cost: Cost = field(default_factory=Cost)
    resume: Resume = field(default_factory=Resume)
    shutdown: Shutdown = field(default_factory=Shutdown)
    overflow: Literal["block", "drop_oldest"] = "block"
    trace: Tracing = field(default_factory=Tracing)
    telemetry: Telemetry = field(default_factory=Telemetry)
    log: Log = field(default_factory=Log)
