"""How fast what is held should leave, for the sake of smoothness: the drain law.

Owns the rate that bridges the upstream's silences. Knows nothing of pieces, frames or of the promise: the pacer raises the rate to the
promise's floor and holds it under the ceiling. Tokens a second; seconds on the caller's monotonic clock.

What is held is spread over the silence that is to be expected, H, so the rate is Q/H; renewed at each burst this is a first-order filter
whose variation falls with sqrt(g / (2 H - g)) for silences of g. Half of the way it leans on the upstream's mean rate instead, which no
burst moves much. When the silence outlasts H, what is left is stretched, so that the stream thins out instead of stopping.
"""

from __future__ import annotations

from typing import Final

from gateway.pacing.reserve import MOST_TOKENS
from gateway.pacing.rhythm import Rhythm

UNLIMITED: Final = float("inf")
THIN_RATE: Final = 1.0  # tokens/s of a stream that lives on its pulses: no silence grows to a stall, and that is all

_MARGIN: Final = 1.1  # H over the learned silence: the cushion that absorbs a small burst or a long silence
_PULL: Final = 0.6  # of the way from the mean rate to Q/H; 0.3 and 1.0 vary more or lag more (docs/pacing.md)
_LAG_SHARE: Final = 0.85  # of the lag promise that smoothness may use; the rest is for the promise to be kept evenly
_LONGEST_S: Final = 1.45  # and never more than this, whatever the promise: the reader of reasoning waits too
_STRETCH: Final = 0.5  # once overdue, what is left is spread over half as long again as the silence has lasted
_STALL_S: Final = 0.25  # and once the silence is what a reader takes for a stall, or a reserve is all that is left, it leaves word by word,
_PULSED_RATE: Final = 13.0  # tokens/s, as long as the promise needs no more: pulses do about 7, and the words left over are no cluster
_COMFORT_RATE: Final = 80.0  # tokens/s, about five times reading speed: a first packet is taken for so much generating time
_FEW_TOKENS: Final = 2.0  # bursts of so few need no spreading: nobody sees two tokens as a cluster
_PACKET_TOKENS: Final = 8.0  # at once at the beginning of a run: a packet, where a steady stream would bring one token
# a packet that is followed without a silence was a fast stream's: doubt starts, and has grown to certainty
_PACKET_DOUBT_S: Final[tuple[float, ...]] = (0.02, 0.08)
# a run longer than 1.5 times the longest burst and 50 ms is no burst: the stream has become steady
_RUN_SLACK: Final[tuple[float, ...]] = (1.5, 0.05)
_SAFE_SHARE: Final = 0.9  # of what the ceiling lets through in `end`: frames leave a part of it unused
_RELIEF_S: Final = 0.5  # over which an excess above what is safe to hold is worked off
_SHARPNESS: Final = 0.25  # standard deviations below the mean silence at which the next burst is expected, where holding would be unsafe
_SURE_TAIL_S: Final = 0.1  # upstreams that tell their end later than this are drained before it


class Drain:
    """The rate for one stream. `renew` at arrivals, `rate` whenever something may leave."""

    __slots__ = ("_base", "_ceiling", "_end_s", "_horizon_s", "_safe_tokens")

    def __init__(self, ceiling_rate: float, end_s: float) -> None:
        self._ceiling = ceiling_rate
        self._end_s = end_s
        self._safe_tokens = _SAFE_SHARE * ceiling_rate * end_s  # so many can leave under the ceiling when the end or another kind comes
        self._base = UNLIMITED
        self._horizon_s = 0.0

    def renew(self, now: float, held: float, lag_s: float, rhythm: Rhythm) -> bool:
        """Tokens arrived; `held` are there now. False if the stream is steady: nothing is to be spread, they may pass at once."""
        run = now - rhythm.run_since
        silences = rhythm.silences
        silence = self._packet_silence(run, rhythm)
        if silences.count:
            silence = silences.horizon_s if silences.mean_tokens > _FEW_TOKENS else 0.0
            longest_burst = _RUN_SLACK[0] * silences.run_s + _RUN_SLACK[1]
            if run > longest_burst and silence:
                silence *= max(0.0, 1.0 - (run - longest_burst) / silence)
        if silence <= 0.0:
            self._base = UNLIMITED
            self._horizon_s = 0.0
            return False
        longest = _LAG_SHARE * lag_s if _LAG_SHARE * lag_s < _LONGEST_S else _LONGEST_S
        silence = min(silence, longest)
        horizon = min(silence * _MARGIN, longest)
        base = held / horizon
        if rhythm.rate:
            base = min(rhythm.rate + _PULL * (base - rhythm.rate), held / silence)
        if silences.count > 1:
            # The next burst must not find more here than leaves room for it, or the two could not end under the ceiling together.
            room = max(0.0, self._safe_tokens - silences.large_tokens)
            expected = max(silences.mean_s - _SHARPNESS * silences.spread_s, 0.05)
            base = max(base, (held - room) / expected)
        self._base = min(max(base, 1.0), self._ceiling)
        self._horizon_s = silence
        return True

    def rate(self, now: float, held: float, ended: bool, last_at: float, tail_s: float | None, needed: float) -> float:
        """Tokens a second from now on; `needed` of them for the promise."""
        rate = self._base
        if rate == UNLIMITED:
            return self._ceiling  # the stream is steady, but something is left from before it was
        since = now - last_at
        if not ended:
            left = self._horizon_s - since
            if left < _STRETCH * since:
                if needed < _PULSED_RATE and (since > _STALL_S or held <= MOST_TOKENS):
                    rate = THIN_RATE
                left = _STRETCH * since
            if rate * left > held:
                rate = held / left
            if tail_s is not None and tail_s > _SURE_TAIL_S:
                rate = max(rate, self._before_tail(held, since, tail_s))
        excess = held - self._safe_tokens
        if excess > 0.0:
            rate = max(rate, min(self._ceiling, excess / _RELIEF_S))
        return rate

    def _packet_silence(self, run: float, rhythm: Rhythm) -> float:
        """Before any silence was seen: a packet stands for the time that it took to generate."""
        if rhythm.run_tokens <= _PACKET_TOKENS + run * self._ceiling:
            return 0.0
        starts, grows = _PACKET_DOUBT_S
        doubt = max(0.0, (run - starts) / grows)
        return max(0.0, 1.0 - doubt) * rhythm.run_tokens / max(_COMFORT_RATE, rhythm.rate)

    def _before_tail(self, held: float, since: float, tail_s: float) -> float:
        """This upstream has told its end late: what could not leave in the time that will be left then must go before."""
        usable = min(tail_s, self._end_s)
        safe = self._ceiling * (self._end_s - usable)
        return min(self._ceiling, (held - safe) / max(usable - since, 0.02))
