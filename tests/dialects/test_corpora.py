"""Every stream of the corpora through the whole machine, however its bytes are cut: text, order and fields exact."""

from __future__ import annotations

import pytest

from dialects.corpora import BOTH, at_random, each, files, of, played
from dialects.sameness import same
from gateway.dialects import Dialect
from support.cuts import chopped

EACH = each(files(Dialect))  # type: ignore[type-abstract]


@EACH
@BOTH
def test_whole(folder: str, name: str, raw: bool) -> None:
    same(folder, name, played(folder, name, [of(folder, name)], raw=raw, gap_s=0.0))


@EACH
@BOTH
def test_byte_by_byte(folder: str, name: str, raw: bool) -> None:
    same(folder, name, played(folder, name, chopped(of(folder, name), 1), raw=raw, gap_s=0.0005))


@EACH
@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_cut_at_random(folder: str, name: str, raw: bool, seed: int) -> None:
    pieces, gap_s = at_random(name, seed, of(folder, name))
    same(folder, name, played(folder, name, pieces, raw=raw, gap_s=gap_s))
