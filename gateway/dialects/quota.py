"""How much reasoning a client gets: all that comes up to a number of tokens, nothing beyond it.

Owns the count. It must not know where the text stands. Invariant: what is allowed is a prefix of what was asked for, cut between graphemes.
"""

from __future__ import annotations

from gateway.dialects.text import cut_at, weigh


class Quota:
    """most: tokens, estimated as the pacer does; 0.0 withholds everything. spent: tokens that came. withheld: of them, those refused."""

    __slots__ = ("most", "spent", "withheld")

    def __init__(self, most: float) -> None:
        self.most = most
        self.spent = 0.0
        self.withheld = 0.0

    @property
    def exhausted(self) -> bool:
        return self.spent >= self.most

    @property
    def exceeded(self) -> bool:
        return self.withheld > 0.0

    def allow(self, text: str) -> str:
        """The part of the text that may be delivered. Once something was withheld nothing more is: text has no gaps."""
        weight = weigh(text)
        left = 0.0 if self.exceeded else self.most - self.spent
        self.spent += weight
        if weight <= left:
            return text
        kept = text[: cut_at(text, left)] if left >= 1.0 else ""
        self.withheld += weight - weigh(kept)
        return kept
