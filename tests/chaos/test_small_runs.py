"""The fault run in small, so that it stays true: every stream identical or an honest error, and nothing left behind."""

from __future__ import annotations

import argparse

import pytest

from chaos import faults

pytestmark = pytest.mark.anyio


async def test_trouble_at_every_stage_is_absorbed_or_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert await faults.main(argparse.Namespace(streams=120, at_once=30, seed=7)), capsys.readouterr().out
