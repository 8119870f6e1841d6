"""The keys of one upstream: used in turn, each resting after a refusal. Pure: told the time. Knows them by their place in the list only."""

from __future__ import annotations


class KeyRing:
    """`count`: how many there are; 0 where the client's own credential passes through, which is as one key that never rests."""

    __slots__ = ("_refused", "_rests_until", "_turn", "count")

    def __init__(self, count: int) -> None:
        self.count = count
        self._rests_until = [0.0] * count
        self._refused = [False] * count
        self._turn = 0

    def take(self, now: float) -> int:
        """The next that does not rest; where all do, the one whose rest ends first. -1: the client's own."""
        if not self.count:
            return -1
        for step in range(self.count):
            key = (self._turn + step) % self.count
            if self._rests_until[key] <= now:
                self._turn = (key + 1) % self.count
                return key
        return min(range(self.count), key=self._rests_until.__getitem__)

    def free(self, now: float) -> bool:
        """Whether there is one that does not rest."""
        return not self.count or any(until <= now for until in self._rests_until)

    def states(self, now: float) -> tuple[int, int, int]:
        """How many are usable, resting, refused."""
        refused = sum(self._refused)
        resting = sum(until > now and not bad for until, bad in zip(self._rests_until, self._refused, strict=True))
        return self.count - resting - refused, resting, refused

    def rest(self, key: int, until: float) -> None:
        if 0 <= key < self.count:
            self._rests_until[key] = max(self._rests_until[key], until)

    def refuse(self, key: int, until: float) -> bool:
        """The upstream does not know it. Whether that is news: it is reported once, until it was good again."""
        self.rest(key, until)
        if not 0 <= key < self.count or self._refused[key]:
            return False
        self._refused[key] = True
        return True

    def good(self, key: int) -> None:
        """It was taken."""
        if 0 <= key < self.count and self._refused[key]:
            self._refused[key] = False
            self._rests_until[key] = 0.0
