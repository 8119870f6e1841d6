"""Bytes cut anywhere, as networks do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import strategies as st


def cuts(most: int = 400) -> st.SearchStrategy[list[int]]:
    """Places to cut at; those beyond the end of what is cut do nothing."""
    return st.lists(st.integers(0, most), max_size=12)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """The data in pieces, empty ones among them where a place comes twice."""
    borders = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(borders)]


def chopped(data: bytes, step: int) -> list[bytes]:
    return [data[at : at + step] for at in range(0, len(data), step)]
