"""Halves of surrogate pairs: an upstream that cuts in UTF-16 can end a delta between the two, and half a pair is no character.

Owns the halves that wait for their other half, one for each text. It must not know where a text stands: a key names it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Pairs(Generic[Key]):
    """Bounded by the texts of one answer."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Key, str] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def join(self, key: Key, text: str, last: bool = False) -> str:
        """The text with the half that waited before it, and without one at its end, which now waits. last: nothing follows."""
        if not text:
            return text
        waiting = self._waiting.pop(key, "")
        if waiting:
            text = (waiting + text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if 0xD800 <= ord(text[-1]) <= 0xDBFF and not last:
            self._waiting[key] = text[-1]
            text = text[:-1]
        return text

    def take_all(self) -> list[tuple[Key, str]]:
        """The halves that are left; none waits then."""
        left = list(self._waiting.items())
        self._waiting.clear()
        return left
