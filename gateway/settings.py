"""The effective settings, as values: what each is, its unit, its default and the reason for that default.

Pure: no file is read here (gateway/config does), so that every layer may take its part of these by constructor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal


@dataclass(frozen=True, slots=True)
class Range:
    """What a number may be, ends included; gateway/config holds a file to it, code that builds settings by itself is free."""

    low: float
    high: float
    unit: Literal["s", "bytes", "USD", ""] = ""


@dataclass(frozen=True, slots=True)
class Text:
    """What a string is, so that gateway/config knows its form and which ones `--print-config` hides."""

    role: Literal["name", "model", "pattern", "url", "host", "secret", "file", "output", "sha256", "redis", "origin"]


# Members of a request's body and what they are set to: `reasoning_effort: low`. A name may lead into objects: `reasoning.effort`.
Member = tuple[str, str | float | bool]
Cap = tuple[str, int]


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
    silence: Annotated[float | None, Range(0.05, 86_400, "s")] = 300.0  # no semantic event from the upstream
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


@dataclass(frozen=True, slots=True)
class Listen:
    host: Annotated[str, Text("host")] = "127.0.0.1"
    port: Annotated[int, Range(0, 65_535)] = 8080
    # s: longer than the 60-75 s of load balancers, or they meet closed connections
    keep_alive: Annotated[float, Range(1, 86_400, "s")] = 120.0
    # else: no listening beyond loopback while an upstream has a key that any caller would use (where there are no `clients`)
    allow_public: bool = False
    # of web pages that may use the API besides the gateway's own; `*`: every one. None by default: any open page could spend the key
    cors_origins: Annotated[tuple[str, ...], Text("origin")] = ()
    # names by which it may be asked for, besides addresses and names that nobody on the internet can own; none: whatever, but for browsers
    # that came to a loopback address by a name of the internet
    hosts: Annotated[tuple[str, ...], Text("host")] = ()
    head_bytes: Annotated[int, Range(2**12, 2**20, "bytes")] = (
        64 * 2**10
    )  # of a request's head; what nginx and HAProxy pass at most is 32 KiB
    head_timeout: Annotated[float | None, Range(0.05, 3600, "s")] = 30.0  # s for a whole head; a phone's needs two
    # s in which a body must come on by 500 bytes a second; not counted while it is the gateway that does not read
    body_timeout: Annotated[float | None, Range(0.05, 3600, "s")] = 30.0
    # open at once, of each worker; then idle ones and unfinished heads go first. 10 KB each, and a file descriptor
    connections: Annotated[int, Range(1, 1_000_000)] = 10_000


@dataclass(frozen=True, slots=True)
class Shutdown:
    # s that running streams have after SIGTERM; what Kubernetes gives by default
    grace: Annotated[float, Range(0, 86_400, "s")] = 30.0


@dataclass(frozen=True, slots=True)
class Resume:
    """Streams that a client can come back to: those with an Idempotency-Key or a cursor (docs/resume.md)."""

    enabled: bool = True  # False: an Idempotency-Key is the upstream's to understand
    redis: Annotated[str | None, Text("redis")] = None  # None: in memory, so that a client must come back to the same process
    grace: Annotated[float, Range(0, 86_400, "s")] = 60.0  # s that a stream goes on with nobody there: a reload, a tunnel, a lift
    hold: Annotated[float, Range(1, 86_400, "s")] = 300.0  # s that it can be had after its end: an SDK's retries are over by then
    # of one stream; then a client that is there loses the oldest, one that is not makes the upstream wait. 50,000 events of one token
    stream_bytes: Annotated[int, Range(2**12, 2**32, "bytes")] = 16 * 2**20
    total_bytes: Annotated[int, Range(2**16, 2**40, "bytes")] = 256 * 2**20  # of all in memory; the ended go first
    # s after which the others take a process for dead that does not renew it; three renewals, so that one lost packet kills nothing
    lease: Annotated[float, Range(1, 600, "s")] = 10.0


@dataclass(frozen=True, slots=True)
class Tracing:
    """Arrival times of streams, without their text, for `decluster trace`."""

    file: Annotated[str | None, Text("output")] = None  # None: nothing is noted
    upstreams: Annotated[tuple[str, ...], Text("name")] = ()  # whose streams are all noted; of others those that ask by x-stream-trace
    file_bytes: Annotated[int, Range(2**10, 2**34, "bytes")] = 16 * 2**20  # some thousand streams; then it becomes FILE.1


@dataclass(frozen=True, slots=True)
class Telemetry:
    """OpenTelemetry spans, by OTLP over HTTP (the extra `otel`)."""

    endpoint: Annotated[str | None, Text("url")] = None  # e.g. http://127.0.0.1:4318; None: off
    service: Annotated[str, Text("name")] = "decluster"
    sample: Annotated[float, Range(0, 1)] = 1.0  # share of the requests that bring no traceparent of their own; theirs is followed


@dataclass(frozen=True, slots=True)
class Log:
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


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
