"""How long an upstream is silent between its bursts, and how much it says in one: what the pacer has to bridge.

Owns the learned silences, of one stream (`Silences`) and of all streams of one upstream and model (`Horizon`). Knows nothing of tokens
held, of promises or of frames. Durations in seconds, given by the caller. Invariants: bounded (32 silences a kind, plain numbers in one
array); figures describe what is remembered, so an upstream that changes its habit is followed within 32 bursts.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import sqrt
from operator import mul
from typing import Final

from gateway.piece import Kind

REMEMBERED: Final = 32  # silences: enough to show the tail of their distribution, few enough to follow a change
LEAST: Final = 3  # silences before their statistics say more than their maximum
LOST_SHARE: Final = 0.01  # of the time seen may be lost in silences longer than the horizon
LONGEST_TAIL_S: Final = 2.0  # an end that takes longer is a failure or a tool at work, no habit
TAIL_WEIGHT: Final = 0.3  # of the newest tail: an exception is forgotten within a few streams
_COLUMNS: Final = 4  # silence_s, seen_s, tokens, run_s
_TEXT_KINDS: Final = 3  # content, reasoning, tool


class Silences:
    """The last silences of one kind of text, each with the burst before it.

    count: how many are remembered. horizon_s: the smallest h for which the time lost in longer silences, the sum of max(0, silence - h),
    is at most 1 % of the time seen; before three silences the longest. mean_s, spread_s: mean and standard deviation of the silences.
    large_tokens: a large burst, one standard deviation above the mean. run_s: the longest time that a burst took to arrive.
    """

    __slots__ = ("_next", "_rows", "horizon_s", "large_tokens", "mean_s", "mean_tokens", "run_s", "spread_s")

    def __init__(self, like: Silences | None = None) -> None:
        self._rows: array[float] = array("d")
        self._next = 0  # the row that the next silence replaces
        self.horizon_s = self.mean_s = self.spread_s = self.mean_tokens = self.large_tokens = self.run_s = 0.0
        if like is not None:
            self._rows.extend(like._rows)
            self._next = like._next
            self._describe()

    @property
    def count(self) -> int:
        return len(self._rows) // _COLUMNS

    def learn(self, silence_s: float, seen_s: float, tokens: float, run_s: float) -> None:
        """A burst of `tokens` that took `run_s` to arrive was followed by `silence_s`; all in all `seen_s` passed."""
        self.note(silence_s, seen_s, tokens, run_s)
        self._describe()

    def note(self, silence_s: float, seen_s: float, tokens: float, run_s: float) -> None:
        """As `learn`, for others: the figures here are not renewed, those of what is made like this one will be."""
        row = array("d", (silence_s, seen_s, tokens, run_s))
        if len(self._rows) < REMEMBERED * _COLUMNS:
            self._rows.extend(row)
        else:
            at = self._next * _COLUMNS
            self._rows[at : at + _COLUMNS] = row
            self._next = (self._next + 1) % REMEMBERED

    def merge(self, other: Silences) -> None:
        """Takes over what another remembers, as if it had come after the own."""
        rows = other._rows
        for at in range(0, len(rows), _COLUMNS):
            self.learn(*rows[at : at + _COLUMNS])

    def _describe(self) -> None:
        rows = self._rows.tolist()  # in one go: an array gives its numbers one by one
        silences = sorted(rows[0::_COLUMNS], reverse=True)
        count = len(silences)
        if not count:
            return
        tokens = rows[2::_COLUMNS]
        self.mean_s, self.spread_s = _mean_and_deviation(silences)
        self.mean_tokens, deviation = _mean_and_deviation(tokens)
        self.large_tokens = min(self.mean_tokens + deviation, max(tokens))
        self.run_s = max(rows[3::_COLUMNS])
        self.horizon_s = silences[0] if count < LEAST else _within_budget(silences, LOST_SHARE * sum(rows[1::_COLUMNS]))


class Horizon:
    """What all streams of one upstream and model have shown. The caller keeps one for each pair and passes it to their pacers.

    silences: by kind. tail_s: how long after its last token an upstream says that it has ended; a mean that forgets; None while unknown.
    """

    __slots__ = ("silences", "tail_s")

    def __init__(self) -> None:
        self.silences = tuple(Silences() for _ in range(_TEXT_KINDS))
        self.tail_s: float | None = None

    def of(self, kind: Kind) -> Silences:
        return self.silences[kind]

    def learn_tail(self, seconds: float) -> None:
        """A stream's end became known so long after its last token."""
        if seconds > LONGEST_TAIL_S:
            return
        known = self.tail_s
        self.tail_s = seconds if known is None else known + TAIL_WEIGHT * (seconds - known)

    def merge(self, other: Horizon) -> None:
        """Takes over what another horizon, of another process for example, has seen."""
        for mine, theirs in zip(self.silences, other.silences, strict=True):
            mine.merge(theirs)
        if other.tail_s is not None:
            self.learn_tail(other.tail_s)


def _mean_and_deviation(numbers: Sequence[float]) -> tuple[float, float]:
    count = len(numbers)
    mean = sum(numbers) / count
    variance = sum(map(mul, numbers, numbers)) / count - mean * mean  # exact enough for numbers this near to each other
    return mean, sqrt(variance) if variance > 0.0 else 0.0


def _within_budget(longest_first: list[float], budget_s: float) -> float:
    """The smallest h with sum(max(0, silence - h)) <= budget_s."""
    total = 0.0
    for count, silence in enumerate(longest_first, 1):
        total += silence
        following = longest_first[count] if count < len(longest_first) else 0.0
        if total - count * following >= budget_s:
            return (total - budget_s) / count
    return 0.0
