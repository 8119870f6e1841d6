"""Each trouble case, played against the real gateway over sockets. A case that waits for a feature stands in WAITING, with its name."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from cases.checks import CHECKS, check
from cases.player import play
from cases.promises import kept
from cases.reading import Case, cases
from gateway.settings import Settings

# Case -> the setting that it waits for.
WAITING = {
    "anthropic-overloaded-before-text": "fallback",
    "disconnect-during-backoff": "max_retries",
    "h2-flow-control-isolation": "http2",
    "h2-rst-mid-stream": "http2",
    "hang-before-headers-then-fallback": "fallback",
    "reset-after-headers-no-body": "max_retries",
    "responses-failed-in-preamble-failover": "fallback",
    "responses-item-added-empty-then-failed": "fallback",
    "retry-after-garbage": "max_retries",
    "retry-after-ms": "max_retries",
    "retry-after-seconds": "max_retries",
    "think-partial-tag-at-end": "think_tags",
    "think-tag-split": "think_tags",
}
# Settings of ours that would be the counterpart of what is waited for: words that their names will hold.
WORDS = {"fallback": ("fallback", "failover"), "max_retries": ("retr", "attempts"), "http2": ("http2", "h2"), "think_tags": ("think",)}
# These name a setting that is still to come, but what they expect holds without it: that there is no second attempt.
HOLDS_WITHOUT = {
    "error-frame-mid-stream",
    "reset-after-reasoning-only",
    "reset-after-tool-fragment",
    "retry-multiplication",
    "status-400-not-retried",
}
# Where the contract says something else than the case, and what.
OTHERWISE = {
    "status-524-cloudflare": ("error_json", "error bodies before the stream are the upstream's own, status and all (DESIGN, Endings)"),
}

pytestmark = pytest.mark.anyio
PLAYED = [case for name, case in cases().items() if name not in WAITING]


@pytest.mark.parametrize("case", PLAYED, ids=[case.id for case in PLAYED])
async def test_case_comes_out_right(case: Case, tmp_path: Path) -> None:
    outcome = await play(case, tmp_path)
    check(outcome, besides=OTHERWISE.get(case.id, ())[:1])
    answer = outcome.answer
    if answer.over and answer.header("content-type") == "text/event-stream; charset=utf-8":
        kept(case.api, answer)


def test_the_table_of_what_waits_holds_no_case_that_could_be_played() -> None:
    assert {name for name, case in cases().items() if case.needs and name not in HOLDS_WITHOUT} == set(WAITING)
    assert all(feature in cases()[name].needs for name, feature in WAITING.items())
    assert all(cases()[name].needs <= {"fallback", "max_retries"} for name in HOLDS_WITHOUT)


def test_what_is_waited_for_is_no_setting_yet() -> None:
    names = {name.lower() for name in _names(Settings)}
    for feature in set(WAITING.values()):
        there = [name for name in names if any(word in name for word in WORDS[feature])]
        assert not there, f"{there} may be what {feature!r} waited for: map it in reading.SETTINGS and play its cases"


def test_every_expectation_is_checked() -> None:
    assert {key for case in cases().values() for key in case.expect} - {"outcome_any_of"} <= set(CHECKS)
    assert all(name in cases()[case].expect for case, (name, _) in OTHERWISE.items())


def _names(settings: type[Any]) -> set[str]:
    hints = get_type_hints(settings)
    found = set()
    for each in fields(settings):
        found.add(each.name)
        for inner in (hints[each.name], *getattr(hints[each.name], "__args__", ())):
            if is_dataclass(inner) and isinstance(inner, type):
                found |= _names(inner)
    return found
