"""Curves as pictures: round axes, marks where the bursts are, bounded, and text that cannot become markup."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pictures import Curve, bursts, document, svg, terminal
from gateway.pictures.curves import ticks
from gateway.pictures.png import png

BURSTY = Curve("arrived", [(1.0, 100.0), (3.0, 60.0), (3.01, 5.0)])


@given(st.floats(1e-3, 1e9))
def test_an_axis_has_a_few_round_numbers_within_its_reach(most: float) -> None:
    found = ticks(most)
    assert found[0] == 0
    assert 2 <= len(found) <= 6
    assert found[-1] <= most * (1 + 1e-6)


def test_a_dot_is_where_a_burst_is_whole() -> None:
    assert bursts(BURSTY) == [(1.0, 100.0), (3.0, 165.0)]
    assert svg([BURSTY]).count("<circle") == 2


@pytest.mark.parametrize("columns", [1, 20, 80])
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_is_wider_than_the_terminal(columns: int, unicode: bool) -> None:
    text = terminal([BURSTY, Curve("delivered", [])], columns, unicode)
    assert max(map(len, text.splitlines())) <= max(20, columns)
    assert unicode or text.isascii()


def test_a_name_cannot_become_markup_and_nothing_is_fetched() -> None:
    page = document("<script>", svg([Curve('"><script>', [(0.0, 1.0)])]))
    assert "<script" not in page
    assert "http" not in page


def test_a_curve_of_a_million_steps_is_a_bounded_picture() -> None:
    long = Curve("x", [(index / 1000, 1.0) for index in range(100_000)])
    assert len(svg([long])) < 400_000


def test_a_png_is_one(tmp_path: Path) -> None:
    png([BURSTY, Curve("delivered", [])], tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
