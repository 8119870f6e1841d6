"""How a stream is delivered: pacing, heartbeats, reasoning, and the clocks and bounds of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from gateway.settings.marks import Range, Text


@dataclass(frozen=True, slots=True)
class MaxLag:
    """The longest that a token waits, in seconds, by kind."""

    content: Annotated[float, Range(0.05, 60, "s")] = 1.0
    reasoning: Annotated[float, Range(0.05, 60, "s")] = 2.5
    tool: Annotated[float, Range(0.05, 60, "s")] = 0.5  # agents wait for whole arguments


@dataclass(frozen=True, slots=True)
class Pacing:
    mode: Literal["smooth", "raw"] = "smooth"
    max_lag: MaxLag = field(default_factory=MaxLag)
    # s: what is held of one kind is out so long after the next kind arrived
    switch: Annotated[float, Range(0.05, 60, "s")] = 0.5
    end: Annotated[float, Range(0.05, 60, "s")] = 0.5  # s: and everything so long after the upstream's last token
    # a cluster is 24 in 50 ms; two below it, for pieces that cannot be cut exactly
    ceiling_tokens: Annotated[int, Range(1, 10_000)] = 22
    # s: wider than 50 ms, so that 10 ms of network jitter makes no cluster of it
    ceiling_window: Annotated[float, Range(0.01, 1, "s")] = 0.064
    frame: Annotated[float, Range(0.005, 1, "s")] = 0.020  # s: three frames to the window, with room for a late tick


@dataclass(frozen=True, slots=True)
class Heartbeat:
    # s without a byte to the client; half of the shortest idle limit in common use (30 s)
    every: Annotated[float, Range(0.05, 3600, "s")] = 15.0
    style: Literal["auto", "comment", "chunk", "native"] = "auto"


@dataclass(frozen=True, slots=True)
class Reasoning:
    """How reasoning is delivered to requests that do not say it themselves (docs/controls.md)."""

    format: Literal["as_is", "reasoning_content", "reasoning", "think_tags", "tagged", "hidden"] = "as_is"
    # names of the tags that models put around reasoning in their text
    tags: Annotated[tuple[str, ...], Text("name")] = ("think", "thinking", "reasoning")
    # models whose template opens the tag itself, so that their text begins inside
    begins_inside: Annotated[tuple[str, ...], Text("model")] = ()


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds; None is off."""

    connect: Annotated[float, Range(0.05, 600, "s")] = 10.0
    # as the SDKs' own default: reasoning models think before they answer
    headers: Annotated[float | None, Range(0.05, 86_400, "s")] = 600.0
    first_content: Annotated[float | None, Range(0.05, 86_400, "s")] = 600.0
    # no semantic event from the upstream; no byte, where the answer is no stream
    silence: Annotated[float | None, Range(0.05, 86_400, "s")] = 300.0
    total: Annotated[float | None, Range(0.05, 86_400, "s")] = None  # total caps cut healthy streams
    client_stall: Annotated[float | None, Range(0.05, 86_400, "s")] = 120.0  # a write that the client does not take
    # after the proof of a whole stream: how long usage and the closing line may take
    closing: Annotated[float, Range(0.01, 60, "s")] = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    request_bytes: Annotated[int, Range(2**10, 2**34, "bytes")] = 64 * 2**20  # a request with several images is 25 MB
    # response.completed repeats the whole answer; images come in one event
    event_bytes: Annotated[int, Range(2**10, 2**30, "bytes")] = 16 * 2**20
    # held for one client that does not read; then the upstream waits
    stream_bytes: Annotated[int, Range(2**12, 2**30, "bytes")] = 2 * 2**20
    connections_idle: Annotated[int, Range(0, 65_536)] = 256  # kept to one upstream
