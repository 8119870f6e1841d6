"""Where requests go, and what is done where an upstream fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from gateway.settings.marks import Cap, Member, Range, Text


@dataclass(frozen=True, slots=True)
class Cut:
    """What an upstream can do for a stream that died in the middle; used where a route's `on_cut` asks for it."""

    # cursor: it is such a gateway as this one (Idempotency-Key and Last-Event-ID); responses: it serves `starting_after`
    resume: Literal["none", "cursor", "responses"] = "none"
    # how it takes the beginning of its own answer: a last message of the assistant's as it is; that message with `prefix: true` (DeepSeek,
    # Mistral); or with `continue_final_message: true` beside it (vLLM, SGLang). Messages and completions need no sign: plain
    prefill: Literal["none", "plain", "prefix", "final_message"] = "none"


@dataclass(frozen=True, slots=True)
class Upstream:
    name: Annotated[str, Text("name")]
    base_url: Annotated[str, Text("url")]
    api_key: Annotated[str | None, Text("secret")] = None  # None: the client's own Authorization passes through
    api_keys: Annotated[tuple[str, ...], Text("secret")] = ()  # several, used in turn
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: Annotated[str | None, Text("file")] = None
    # auto: what a TLS upstream chooses. Reading an event under TLS costs 0.5 of HTTP/1.1's, in bursts 1.2 times it (benchmarks/http2.py),
    # and streams need no handshake each
    http2: Literal["auto", "true", "false"] = "auto"
    provider: Annotated[str, Text("name")] = "openai"  # gen_ai_provider_name
    # names that may stand in metrics besides those that the upstream lists
    models: Annotated[tuple[str, ...], Text("model")] = ()
    forward_extensions: bool = False
    # where this upstream takes a limit on reasoning tokens (`reasoning.max_tokens`: a member of a member); None: it has none
    reasoning_limit_field: Annotated[str | None, Text("name")] = None
    ask_usage: bool = True  # false: it refuses `stream_options`, so that it is never asked for a stream's usage
    cut: Cut = field(default_factory=Cut)

    @property
    def keys(self) -> tuple[str, ...]:
        """The gateway's own keys; empty where the client's credential passes through."""
        return self.api_keys if self.api_key is None else (self.api_key, *self.api_keys)


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """One place that a route leads to, and what a request becomes on its way there."""

    upstream: Annotated[str, Text("name")]
    model: Annotated[str | None, Text("model")] = None  # None: as the client named it
    weight: Annotated[int, Range(0, 1000)] = 1  # share of the requests, beside the other targets' weights
    set: tuple[Member, ...] = ()
    cap: tuple[Cap, ...] = ()  # lowers what is higher; what is not there stays away, since APIs name their limits differently


@dataclass(frozen=True, slots=True)
class Route:
    """The first whose pattern fits a request's model is taken."""

    models: Annotated[tuple[str, ...], Text("pattern")]
    targets: tuple[RouteTarget, ...]
    fallbacks: tuple[RouteTarget, ...] = ()  # in order, once the target failed
    on_cut: Literal["error", "resume", "continue", "fallback"] = "error"  # when the upstream dies in mid-stream
    reasoning_format: Literal["as_is", "reasoning_content", "reasoning", "think_tags", "tagged", "hidden"] | None = None
    pacing: Literal["smooth", "raw"] | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """Before the first real content. `attempts` at one upstream; a fallback is tried once more beside them."""

    attempts: Annotated[int, Range(1, 10)] = 3  # as many as the SDKs make by themselves; 1: none is repeated
    # s: the wait before attempt n+1 is chance times base * 2**(n-1), at most cap; the SDKs' own figures
    base: Annotated[float, Range(0.001, 60, "s")] = 0.5
    cap: Annotated[float, Range(0.001, 600, "s")] = 8.0
    # s: an upstream that says to wait longer is obeyed by passing its refusal on. Below heartbeat.every, so that it can still be a status
    retry_after_cap: Annotated[float, Range(0, 3600, "s")] = 10.0
    within: Annotated[float, Range(0, 86_400, "s")] = 60.0  # s from the request's start; later nothing is repeated at the same upstream
    # repeats that one upstream may get in all, and what each request adds: in an outage retries are a fifth of the load, not twice it
    bucket: Annotated[int, Range(1, 10_000)] = 20
    share: Annotated[float, Range(0, 1)] = 0.2
    key_rest: Annotated[float, Range(0, 86_400, "s")] = 30.0  # s that a key rests after a 429 that does not say how long
    key_refused_rest: Annotated[float, Range(0, 604_800, "s")] = 600.0  # s that a key rests which its upstream refused


@dataclass(frozen=True, slots=True)
class Tripping:
    """When an upstream is taken for broken."""

    failures: Annotated[int, Range(1, 1000)] = 5  # in a row
    rate: Annotated[float, Range(0.01, 1)] = 0.5  # or this share of
    requests: Annotated[int, Range(1, 100_000)] = 20  # at least so many
    window: Annotated[float, Range(1, 3600, "s")] = 30.0  # s
    rest: Annotated[float, Range(0.05, 3600, "s")] = 12.0  # s without requests; then one probes
