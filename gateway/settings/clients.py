"""Who may ask for how much, and what answers cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gateway.settings.marks import Range, Text


@dataclass(frozen=True, slots=True)
class Client:
    """One who may use the gateway. None: what `admission` says for all."""

    name: Annotated[str, Text("name")]
    key_sha256: Annotated[str, Text("sha256")]  # of the key, which is long and random, so that no slow hash is needed
    concurrent: Annotated[int | None, Range(1, 1_000_000)] = None
    requests_per_minute: Annotated[int | None, Range(1, 1_000_000_000)] = None
    tokens_per_minute: Annotated[int | None, Range(1, 1_000_000_000)] = None
    budget_per_day: Annotated[float | None, Range(0, 1_000_000_000, "USD")] = None


@dataclass(frozen=True, slots=True)
class ModelLimit:
    """Shell patterns of models that share what may be asked of them a minute."""

    models: Annotated[tuple[str, ...], Text("pattern")]
    requests_per_minute: Annotated[int | None, Range(1, 1_000_000_000)] = None
    tokens_per_minute: Annotated[int | None, Range(1, 1_000_000_000)] = None
    per_client: bool = False  # all clients together, as a provider counts


@dataclass(frozen=True, slots=True)
class Admission:
    """How much may be asked at once and in a minute; off by default: nobody but you knows what is too much."""

    concurrent: Annotated[int | None, Range(1, 1_000_000)] = None  # answers in the making, in all
    concurrent_per_client: Annotated[int | None, Range(1, 1_000_000)] = None
    # s that a request waits for its turn, unseen; never longer than heartbeat.every: shorter than any client's patience with silence
    wait: Annotated[float, Range(0, 60, "s")] = 5.0
    waiting: Annotated[int, Range(0, 1_000_000)] = 256  # requests that wait at once: each holds its body in memory
    requests_per_minute: Annotated[int | None, Range(1, 1_000_000_000)] = None  # of one client
    tokens_per_minute: Annotated[int | None, Range(1, 1_000_000_000)] = None
    models: tuple[ModelLimit, ...] = ()
    redis: Annotated[str | None, Text("redis")] = None  # None: counted in memory, each process for itself
    # s that the event loop may run late, on average over a second, before new answers are refused: frames are as wide as they get then
    # (64 ms), and the promise to those that run still holds
    late: Annotated[float | None, Range(0.001, 10, "s")] = 0.1


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Of models (shell patterns), in USD for a million tokens. None: as `input`."""

    models: Annotated[tuple[str, ...], Text("pattern")]
    input: Annotated[float, Range(0, 1_000_000, "USD")]
    output: Annotated[float, Range(0, 1_000_000, "USD")]
    cache_read: Annotated[float | None, Range(0, 1_000_000, "USD")] = None
    cache_write: Annotated[float | None, Range(0, 1_000_000, "USD")] = None


@dataclass(frozen=True, slots=True)
class Cost:
    catalogue: bool = True  # prices of genai-prices, for what `prices` does not name
    # asking for the usage of streams whose clients did not, which do not see it. auto: where a limit, a budget, a client's key or a price
    # of one's own wants it exact; else a request goes on as it came, and the cost of its stream is estimated
    ask_usage: Literal["auto", "always", "never"] = "auto"
    prices: tuple[ModelPrice, ...] = ()
