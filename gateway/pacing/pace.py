"""The rate at which one stream leaves: smoothness, the promise and the ceiling brought together.

Owns the choice between them. Knows nothing of pieces or of the queue: it is told what came, what is held and what is out, in tokens.
Seconds on the caller's monotonic clock. Invariant: the rate is never below what the promise needs, whatever the ceiling says.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

from gateway.pacing.deadlines import Deadlines
from gateway.pacing.drain import THIN_RATE, UNLIMITED, Drain
from gateway.pacing.horizon import Horizon
from gateway.pacing.reserve import kept_tokens
from gateway.pacing.rhythm import Rhythm
from gateway.piece import Kind
from gateway.settings import Pacing

_LONGEST_LEAD_S: Final = 0.100  # a frame later than this is a stall of the machine, no frame width to plan with
_LEAD_DECAY: Final = 0.05  # of the way back to the frame width with each frame
_ROUNDING_S: Final = 1e-9
# of the ceiling's rate: where the promise comes this near, it is kept frame by frame, not by what a full window leaves free
_NEAR: Final = 0.75
_AT_EASE: Final = 0.7  # of the ceiling's rate: below it, what a late frame makes good may not fill the window to the last,
# but leaves so much of it free (20 of 22 tokens go): a machine or a network that is worse than expected makes no cluster
_SPARE: Final = 1.0 / 11.0
_OVERSPENT: Final = -1.0  # tokens of room: the promise has broken the window already, and must not then wait until it has passed
_HEDGE_END: Final = 0.9  # of `end`: what frames leave of it
_OUTRUN_AFTER_S: Final = 0.25  # a run above the ceiling is fast for good after so long, if the promise already needs more than the ceiling,
_OUTRUN_SURE_S: Final = 1.0  # and after so long in any case: to hold it would buy nothing but lag
_OUTRUN_SHARE: Final = 0.95  # of the ceiling's rate counts as above it
_OUTRUN_OVER_S: Final = 0.1  # of silence end such a run
_CATCH_UP: Final = 0.08  # of its rate is added until what had been held has left


class Pace:
    """rate: tokens/s from now on; 0.0 while a steady stream passes. lead_s: how far apart frames are.

    kept_tokens: what a steady stream keeps back until its next token arrives; 0.0 where it is none.
    """

    __slots__ = (
        "_ceiling_rate",
        "_drain",
        "_end_s",
        "_frame_s",
        "_horizon",
        "_lags_s",
        "_outrunning",
        "_spare_tokens",
        "_switch_s",
        "deadlines",
        "kept_tokens",
        "lead_s",
        "rate",
        "rhythm",
    )

    def __init__(self, settings: Pacing, horizon: Horizon, ceiling_rate: float) -> None:
        self._horizon = horizon
        self._ceiling_rate = ceiling_rate
        self._drain = Drain(ceiling_rate, settings.end)
        self._lags_s = (settings.max_lag.content, settings.max_lag.reasoning, settings.max_lag.tool)
        self._switch_s = settings.switch
        self._end_s = settings.end
        self._frame_s = settings.frame
        self._outrunning = False
        self._spare_tokens = settings.ceiling_tokens * _SPARE
        self.deadlines = Deadlines()
        self.rhythm = Rhythm(horizon)
        self.rate = 0.0
        self.kept_tokens = 0.0
        self.lead_s = settings.frame

    def arrived(self, now: float, tokens: float, kind: Kind, held: float) -> bool:
        """`tokens` came, which makes `held`. True if the stream is steady: they may leave at once."""
        self.rhythm.arrived(now, tokens, kind)
        steady = not self._drain.renew(now, held, self._lags_s[kind], self.rhythm)
        if steady:
            self.rate = 0.0
            self.kept_tokens = kept_tokens(self.rhythm.steady_rate())
        else:
            self.kept_tokens = 0.0
        return steady

    def is_promised(self, arrived_at: float, kind: Kind, now: float, out: float) -> bool:
        """Whether nothing that is held must leave before the lag since this arrival has passed."""
        self.deadlines.drop(out)
        return self.deadlines.left(now) >= arrived_at + self._lags_s[kind] - now - _ROUNDING_S

    def lag_s(self, kind: Kind) -> float:
        return self._lags_s[kind]

    def settled(self) -> None:
        """Only a reserve is left, which has no rate and whose promise the pacer sees to."""
        self.rate = 0.0
        self.deadlines.clear()

    def promise(self, arrived_at: float, kind: Kind, pushed: float) -> None:
        """All up to the `pushed`th token is out within the lag promised to this kind."""
        self.deadlines.add(arrived_at + self._lags_s[kind], pushed)

    def promise_switch(self, now: float, pushed: float) -> None:
        """Another kind came: what came before it, up to the `pushed`th token, is out soon."""
        self.deadlines.tighten(now + self._switch_s, pushed)

    def promise_first(self, switched_at: float, kind: Kind, pushed: float) -> None:
        """So is the first token of the new kind: it does not wait for the window that the old one has filled."""
        self.deadlines.add(switched_at + min(self._switch_s, self._lags_s[kind]), pushed)

    def promise_end(self, now: float, pushed: float, newly: bool) -> None:
        last_at = self.rhythm.last_at
        if newly:
            self._horizon.learn_tail(now - last_at)
        self.deadlines.tighten(last_at + self._end_s, pushed)

    def stood_still(self, seconds: float, now: float, kind: Kind, ended: bool) -> None:
        """The client took nothing for so long: that time is not the promise's."""
        self.deadlines.shift(seconds, now + (self._end_s if ended else self._lags_s[kind]))

    def frame_came(self, elapsed: float) -> None:
        """Frames come as far apart as the settings say, unless the caller's timer turns out slower: then that is planned with."""
        lead = self.lead_s
        if elapsed > lead:
            self.lead_s = min(elapsed, _LONGEST_LEAD_S)
        elif lead > self._frame_s:
            self.lead_s = lead + (self._frame_s - lead) * _LEAD_DECAY

    def choose(self, now: float, held: float, out: float, must: float, room: float, ended: bool) -> float:
        """Sets the rate; `must` leaves now, `room` is what the ceiling has free. Returns how much may leave now by the ceiling's leave:
        unlimited where the promise outweighs it altogether, so that what it takes goes evenly, frame by frame."""
        rhythm, ceiling = self.rhythm, self._ceiling_rate
        needed = self.deadlines.rate(now, out + must)
        rate = self._drain.rate(now, held, ended, rhythm.last_at, self._horizon.tail_s, needed)
        self._outrunning = self._outruns(now, needed)
        if self._outrunning:
            fast = rhythm.run_rate()
            self.rate = max(fast + min(held / self._end_s, _CATCH_UP * fast), needed)
            return UNLIMITED
        if needed > ceiling:
            self.rate = max(min(rate, ceiling), needed * self._hedge(now, needed))
            return UNLIMITED
        if rate == THIN_RATE:
            self.rate = rate
            return room
        self.rate = max(rate, needed)
        if needed > _NEAR * ceiling or room < _OVERSPENT:
            return max(room, needed * self.lead_s)
        return room - self._spare_tokens if self.rate < _AT_EASE * ceiling else room

    def _outruns(self, now: float, needed: float) -> bool:
        """Whether the upstream is faster than the ceiling for good: then it is followed instead of held back."""
        rhythm, ceiling = self.rhythm, self._ceiling_rate
        run = rhythm.last_at - rhythm.run_since
        if run < _OUTRUN_AFTER_S or rhythm.run_rate() < _OUTRUN_SHARE * ceiling or now - rhythm.last_at > _OUTRUN_OVER_S:
            return False
        return self._outrunning or run > _OUTRUN_SURE_S or needed > ceiling

    def _hedge(self, now: float, needed: float) -> float:
        """How much faster than needed to go where the ceiling is broken anyhow, lest a switch or the end find too much here.

        With T left for what is held, k times the needed rate costs a peak of k times the optimum if nothing happens; if the end comes
        after s, the rest must go within e, at (1 - k s / T)(1 + s / e) times the optimum. Both are equal at their worst for
        k = T / (2 sqrt(T e) - e). It sets in by and by above the ceiling, where the first of these costs begins to count.
        """
        left, end = self.deadlines.governing_left(now), _HEDGE_END * self._end_s
        if left <= end:
            return 1.0
        full = left / (2.0 * sqrt(left * end) - end)
        return 1.0 + (full - 1.0) * min(1.0, needed / self._ceiling_rate - 1.0)
