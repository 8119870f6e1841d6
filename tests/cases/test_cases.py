"""Each trouble case, played against the real gateway over sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.checks import CHECKS, check
from cases.player import play
from cases.promises import kept
from cases.reading import Case, cases

# Where the contract says something else than the case, and what.
OTHERWISE = {
    "status-524-cloudflare": ("error_json", "error bodies before the stream are the upstream's own, status and all (DESIGN, Endings)"),
}

pytestmark = pytest.mark.anyio
PLAYED = list(cases().values())


@pytest.mark.parametrize("case", PLAYED, ids=[case.id for case in PLAYED])
async def test_case_comes_out_right(case: Case, tmp_path: Path) -> None:
    outcome = await play(case, tmp_path)
    check(outcome, besides=OTHERWISE.get(case.id, ())[:1])
    answer = outcome.answer
    if answer.over and answer.header("content-type") == "text/event-stream; charset=utf-8":
        kept(case.api, answer, resumable="idempotency-key" in case.request.get("headers", {}))


def test_every_setting_that_a_case_names_has_its_counterpart() -> None:
    assert not {name for case in cases().values() for name in case.needs}


def test_every_expectation_is_checked() -> None:
    assert {key for case in cases().values() for key in case.expect} - {"outcome_any_of"} <= set(CHECKS)
    assert all(name in cases()[case].expect for case, (name, _) in OTHERWISE.items())
