"""What belongs to the process: where it listens, how it ends, what it keeps and tells of streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gateway.settings.marks import Range, Text


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
