"""What an upstream's trouble means: whether it may be asked again, whether another may be, and whose fault it was.

Owns the tables. Before the first real content only: afterwards nothing is tried again by these rules.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from gateway.errors import Failure


class Verdict(Enum):
    """AGAIN: it may pass, here or elsewhere. LIMITED: this key has had its share for now. REFUSED_KEY: this key is no good there.

    ELSEWHERE: it will not pass here, another upstream may be better. FINAL: it is the request's own, and the client is told.
    """

    AGAIN = "again"
    LIMITED = "limited"
    REFUSED_KEY = "refused_key"
    ELSEWHERE = "elsewhere"
    FINAL = "final"


# 408 and 425 ask for it; the fives are passing states of servers and of those before them; 529 is Anthropic's "overloaded", 520 to 524
# are Cloudflare's words for a server behind it that fails, is away or takes too long.
AGAIN_STATUSES: Final = frozenset({408, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
# A certificate or a coding that is wrong is wrong again; an event too large comes as large again.
_ELSEWHERE_CODES: Final = frozenset({"upstream_tls", "upstream_encoding", "upstream_event_too_large"})
# The client's own time limit, our own end, and what the client asked wrongly.
_FINAL_CODES: Final = frozenset({"upstream_total_timeout", "shutting_down", "internal", "invalid_request", "invalid_control"})
# What comes with a 429 and passes only when somebody pays.
_QUOTA_WORDS: Final = (b"insufficient_quota", b"billing_not_active", b"billing_hard_limit")
QUOTA_BYTES: Final = 4096  # of an error's body that are looked into for them


def verdict_of(failure: Failure, own_key: bool) -> Verdict:
    """`own_key`: the request went out with a key of the gateway's, so a refusal of it is not the client's to mend."""
    if failure.code != "upstream_error":
        if failure.code in _FINAL_CODES or not failure.code.startswith("upstream_"):
            return Verdict.FINAL
        return Verdict.ELSEWHERE if failure.code in _ELSEWHERE_CODES else Verdict.AGAIN
    return of_status(failure.http_status, own_key, failure.body or b"")


def of_status(status: int, own_key: bool, body: bytes = b"") -> Verdict:
    if status == 429:
        begun = body[:QUOTA_BYTES]
        return Verdict.ELSEWHERE if any(word in begun for word in _QUOTA_WORDS) else Verdict.LIMITED
    if status in (401, 403) and own_key:
        return Verdict.REFUSED_KEY
    return Verdict.AGAIN if status in AGAIN_STATUSES else Verdict.FINAL


def is_fault(failure: Failure) -> bool:
    """Whether the breaker counts it. A refusal, a rate limit and our own end say nothing about an upstream's health."""
    if failure.code == "upstream_error":
        return failure.http_status in AGAIN_STATUSES and failure.http_status not in (408, 425)
    return failure.code.startswith("upstream_") and failure.code not in ("upstream_event_too_large", "upstream_total_timeout")
