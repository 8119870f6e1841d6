"""Everything that a case expects, checked."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from cases import framing, said
from cases.expecting import CHECKS
from cases.meaning import understand
from cases.player import Outcome

PARTS: Final = (framing, said)  # whose import fills the register


def check(outcome: Outcome, besides: Collection[str] = ()) -> None:
    """Everything that the case expects, besides what is named."""
    meaning = understand(outcome.case.api, outcome.answer)
    expect = {key: value for key, value in outcome.case.expect.items() if key not in besides}
    alternatives = expect.pop("outcome_any_of", None)
    if alternatives:
        true = [each for each in alternatives if said.ALTERNATIVES[each](outcome, meaning)]
        assert true, f"none of {alternatives}"
        if any("error" in each for each in true):  # what stands there for a success does not apply
            expect = {key: value for key, value in expect.items() if key not in ("content", "finish_reason", "n_done")}
    for key, wanted in expect.items():
        CHECKS[key](wanted, outcome, meaning)
