"""The promise on a stream that was played: when each token was due, and how many came later. Knows nothing of sockets; a token is an event.

A token is due so long after the upstream wrote it, by its kind; at the latest `switch_s` after the next kind began, and `end_s` after the
last token. It is late where it came more than the tolerance after that: machines are noisy, and clients read late too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

TOLERANCE_NS: Final = 50_000_000


@dataclass(frozen=True)
class Promise:
    """max_lag of the gateway's defaults, in seconds."""

    content_s: float = 1.0
    reasoning_s: float = 2.5
    switch_s: float = 0.5
    end_s: float = 0.5

    def of(self, kind: str) -> float:
        return self.reasoning_s if kind == "reasoning" else self.content_s


@dataclass(frozen=True)
class Write:
    """What the upstream wrote at once: so many tokens of one kind."""

    at_ns: int
    tokens: int
    kind: str


@dataclass(frozen=True)
class Verdict:
    """late: tokens. past_ns: how far past its deadline the worst of them was; below 0 all were in time. lags_ns: of each read."""

    late: int
    past_ns: int
    lags_ns: list[int]


def deadlines(writes: Sequence[Write], promise: Promise) -> list[int]:
    """When each write's tokens are due, in nanoseconds: never after those that follow them."""
    due = writes[-1].at_ns + int(promise.end_s * 1e9)
    following = writes[-1]
    out: list[int] = []
    for write in reversed(writes):
        if write.kind != following.kind:
            due = min(due, following.at_ns + int(promise.switch_s * 1e9))
        due = min(due, write.at_ns + int(promise.of(write.kind) * 1e9))
        out.append(due)
        following = write
    return out[::-1]


def judge(writes: Sequence[Write], times_ns: Sequence[int], counts: Sequence[int], promise: Promise) -> Verdict:
    """The client's reads, by time, and the tokens of each; all that was written has come."""
    written = list(accumulate(write.tokens for write in writes))
    came = list(accumulate(counts))
    late, past_ns = 0, -(1 << 62)
    for write, due_ns, total in zip(writes, deadlines(writes, promise), written, strict=True):
        reads = bisect_right(times_ns, due_ns + TOLERANCE_NS)
        late += min(write.tokens, max(0, total - (came[reads - 1] if reads else 0)))
        past_ns = max(past_ns, times_ns[min(bisect_left(came, total), len(came) - 1)] - due_ns)
    lags_ns = []
    for at_ns, count, total in zip(times_ns, counts, came, strict=True):
        if count:
            lags_ns.append(at_ns - writes[min(bisect_left(written, total), len(writes) - 1)].at_ns)
    return Verdict(late, past_ns, lags_ns)
