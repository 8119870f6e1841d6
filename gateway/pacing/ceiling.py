"""How much may leave now without making a cluster.

Owns the frames of the last 64 ms. Knows nothing of rates, promises or kinds. Invariant: bounded by the frames of one window.
"""

from __future__ import annotations

from typing import Final

# A frame this much younger than the window counts as gone: a timer is not exact, and a frame should not wait for half a millisecond.
_SLACK_S: Final = 0.0005
_PASSED: Final = 16  # frames that have left the window before they are dropped


class Ceiling:
    """At most `tokens` in any `window_s` seconds, rounded down to whole frames. spent: tokens in the window that ends now, as of the
    last `room`. window_s: as it is held to. rate: what a stream of frames can do under it, tokens/s.

    Why whole frames: of frames 20 ms apart the fourth comes after 60 ms. If it had to wait for the 64th millisecond it came after 80,
    and a quarter of the rate that the ceiling allows were lost; 60 ms hold through the same 10 ms of network jitter.
    """

    __slots__ = ("_amounts", "_oldest", "_times", "rate", "spent", "tokens", "window_s")

    def __init__(self, tokens: float, window_s: float, frame_s: float) -> None:
        whole = int(window_s / frame_s + 1e-9) * frame_s or window_s
        self.tokens = tokens
        self.rate = tokens / whole
        self.spent = 0.0
        self.window_s = whole - _SLACK_S
        self._times: list[float] = []  # of the frames; what lies before `_oldest` has left the window
        self._amounts: list[float] = []
        self._oldest = 0

    def room(self, now: float) -> float:
        """Tokens that may leave at `now`; negative after the promise took more than there was."""
        times, oldest = self._times, self._oldest
        since = now - self.window_s
        while oldest < len(times) and times[oldest] <= since:
            self.spent -= self._amounts[oldest]
            oldest += 1
        if oldest == len(times):
            self.spent = 0.0  # sheds the rounding of many subtractions
        if oldest == len(times) or oldest > _PASSED:
            del times[:oldest], self._amounts[:oldest]
            oldest = 0
        self._oldest = oldest
        return self.tokens - self.spent

    def spend(self, now: float, tokens: float) -> None:
        self.spent += tokens
        self._times.append(now)
        self._amounts.append(tokens)
