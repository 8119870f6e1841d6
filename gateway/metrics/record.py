"""What is known of one request at its end: what the metrics count and the log says. No text, no key."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.pacing.clusters import Meter


@dataclass(slots=True)
class Record:
    """Times in seconds from the request's arrival; None where it did not come to that."""

    operation: str
    path: str
    model: str | None
    stream: bool
    upstream: str = ""
    provider: str = ""
    request_id: str = ""
    status: int = 0
    reason: str = "whole"  # how it ended: whole, client_gone, or a failure's code
    duration_s: float = 0.0
    upstream_s: float | None = None  # until the upstream's last byte was wanted
    upstream_first_s: float | None = None
    first_token_s: float | None = None
    overhead_s: float | None = None  # first token: out minus in
    heartbeats_before: int = 0
    heartbeats_during: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None  # None: not known, or not yet
    client: str = ""  # the name of the key that it came with
    usage_missing: bool = False
    deadline_releases: int = 0
    arrived: Meter | None = None
    delivered: Meter | None = None
    shed_tokens: float = 0.0  # dropped for a slow live viewer
    remarks: tuple[str, ...] = ()  # what was odd and is no failure
    raw: bool = False  # not paced: as it asked, or as is configured
    follows: bool = False  # a stream that another request began: what that took is booked there
    resume: str = ""  # what became of asking for it again
    followers_left: int = 0  # clients of a recorded stream that went before its end
    holds: list[list[float]] = field(default_factory=list)  # by kind: counts by bucket, then the sum
