"""How long to wait before an upstream is asked again, and how often it may be. Pure: chance is passed in, so is the time.

Sources: "full jitter" (all of the wait is chance, so that those who failed together do not come back together) is AWS's, as is the bucket
that ties the number of repeats to the number of requests, so that an outage is not met by a multiple of the load.
"""

from __future__ import annotations

_REFILL_S: float = 1.0  # and one more each second: a gateway with a request a minute would else never repeat again after an outage


def backoff_s(attempt: int, base_s: float, cap_s: float, chance: float) -> float:
    """Before attempt `attempt` + 1, counted from 1. `chance`: from 0 to 1."""
    return chance * min(cap_s, base_s * 2.0 ** min(attempt - 1, 60))


class Bucket:
    """Repeats that one upstream may get: full at first; each request adds `share`, each repeat takes one."""

    __slots__ = ("_at", "_share", "_size", "tokens")

    def __init__(self, size: int, share: float) -> None:
        self._size = float(size)
        self._share = share
        self._at: float | None = None
        self.tokens = float(size)

    def request(self, now: float) -> None:
        self._refill(now)
        self.tokens = min(self._size, self.tokens + self._share)

    def take(self, now: float) -> bool:
        """Whether a repeat may be made."""
        self._refill(now)
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True

    def _refill(self, now: float) -> None:
        if self._at is not None and now > self._at:
            self.tokens = min(self._size, self.tokens + (now - self._at) / _REFILL_S)
        self._at = now
