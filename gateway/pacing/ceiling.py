"""How much may leave now without making a cluster.

Owns the frames of the last 64 ms. Knows nothing of rates, promises or kinds. Invariant: bounded by the frames of one window.
"""

from __future__ import annotations

from collections import deque

# A frame this much younger than the window counts as gone: three frames of 21 ms are 63 ms, and the fourth should not wait for one
# millisecond. 62.5 ms still hold through 12 ms of network jitter.
_SLACK_S = 0.0015


class Ceiling:
    """At most `tokens` in any `window_s` seconds. spent: tokens in the window that ends now, as of the last `room`."""

    __slots__ = ("_frames", "_window_s", "rate", "spent", "tokens")

    def __init__(self, tokens: float, window_s: float) -> None:
        self.tokens = tokens
        self.rate = tokens / window_s
        self.spent = 0.0
        self._window_s = window_s - _SLACK_S
        self._frames: deque[tuple[float, float]] = deque()

    def room(self, now: float) -> float:
        """Tokens that may leave at `now`; negative after the promise took more than there was."""
        frames = self._frames
        since = now - self._window_s
        while frames and frames[0][0] <= since:
            self.spent -= frames.popleft()[1]
        if not frames:
            self.spent = 0.0  # sheds the rounding of many subtractions
        return self.tokens - self.spent

    def spend(self, now: float, tokens: float) -> None:
        self.spent += tokens
        self._frames.append((now, tokens))

    def opens_at(self) -> float:
        """When the oldest frame leaves the window; 0.0 if there is none."""
        return self._frames[0][0] + self._window_s if self._frames else 0.0
