"""What a case expects of events, frames and times, of the head, and of what the upstream saw.

Times are not judged on a busy machine: a bound in milliseconds is taken LENIENT times, for a gateway that hangs; what it stands for is
checked by order or by number where that is possible.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any, Final

import regex

from cases.expecting import equal, expects, one_of
from cases.meaning import Meaning
from cases.player import Outcome
from cases.reading import body_of

LENIENT: Final = 10.0

# Events

equal("events", lambda outcome, meaning: list(dict.fromkeys(meaning.events)))
one_of("last_event_any_of", lambda outcome, meaning: meaning.events[-1])


@expects("events_contain")
def _events_contain(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert set(wanted) <= set(meaning.events)


@expects("event_counts")
def _event_counts(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert {name: meaning.events.count(name) for name in wanted} == wanted


@expects("sequence_contiguous")
def _sequence_contiguous(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert [each["sequence_number"] for each in meaning.objects] == list(range(len(meaning.objects)))


# Frames and heartbeats


@expects("grapheme_safe_frames")
def _grapheme_safe_frames(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    borders = {0, *(found.end() for found in regex.finditer(r"\X", meaning.content))}
    place = 0
    for each in meaning.objects:
        for choice in each["choices"]:
            place += len(choice["delta"].get("content") or "")
        assert place in borders


@expects("min_client_frames")
def _min_client_frames(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert len(outcome.answer.frames) >= wanted


def heartbeats(outcome: Outcome) -> int:
    return len(outcome.answer.comments)


@expects("no_blank_line_only_frames")
def _no_blank_line_only_frames(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    """No block without data: that is what crashes old openai-go."""
    assert not outcome.answer.comments
    assert outcome.answer.body.count(b"\n\n") == len(outcome.answer.events)
    assert any(each["choices"] and each["choices"][0]["delta"] == {} for each in meaning.objects[1:-1]), "no heartbeat came"


@expects("max_consecutive_heartbeats")
def _max_consecutive_heartbeats(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    """Of those that come in a heap when the client reads on. (That none is queued behind a blocked write is shown in tests/server.)"""
    heaps = Counter(frame.read for frame in outcome.answer.frames if frame.data.startswith(b":"))
    assert heaps
    assert max(heaps.values()) <= wanted


@expects("max_downstream_gap_ms")
def _max_downstream_gap_ms(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    """Heartbeats fill the silence."""
    assert heartbeats(outcome) >= 1
    times = [frame.at for frame in outcome.answer.frames]
    assert all(b - a < wanted / 1e3 * LENIENT for a, b in pairwise(times))


# Times


@expects("first_content_before_ms")
def _first_content_before_ms(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    answer, wrote_at = outcome.answer, outcome.attempts[-1].wrote_at
    if len(wrote_at) > 1:  # the first text is there before the upstream has written the last
        assert answer.frames[0].at < wrote_at[-1]
    assert answer.frames[0].at - answer.asked_at < wanted / 1e3 * LENIENT


@expects("ends_within_ms")
def _ends_within_ms(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert outcome.answer.ended_at - outcome.answer.asked_at < wanted / 1e3 * LENIENT
    assert outcome.attempts[-1].left_at is not None or outcome.attempts[-1].finished, "the upstream is still held"


@expects("max_added_delay_ms")
def _max_added_delay_ms(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert outcome.answer.ended_at - outcome.attempts[-1].wrote_at[-1] < wanted / 1e3 * LENIENT


@expects("upstream_cancelled_within_ms")
def _upstream_cancelled_within_ms(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    left_at = outcome.attempts[-1].left_at
    assert left_at is not None
    assert outcome.left_at is not None
    assert left_at - outcome.left_at < wanted / 1e3 * LENIENT


# The upstream's side and the head

equal("upstream_attempts", lambda outcome, meaning: len(outcome.attempts))


@expects("upstream_attempts_max")
def _upstream_attempts_max(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert len(outcome.attempts) <= wanted


def _between_attempts(outcome: Outcome) -> float:
    first, second = outcome.attempts[:2]
    return second.at - first.wrote_at[-1]


@expects("min_delay_before_attempt_2_ms")
def _min_delay_before_attempt_2_ms(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert _between_attempts(outcome) >= wanted / 1e3 - 0.005  # the upstream's clock starts with its last write


@expects("max_delay_before_attempt_2_ms")
def _max_delay_before_attempt_2_ms(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert _between_attempts(outcome) < wanted / 1e3 * LENIENT


@expects("upstream_request")
def _upstream_request(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    attempt = outcome.attempts[0]
    for key, value in wanted.items():
        if key == "path":
            assert attempt.target == value
        elif key == "method":
            assert attempt.method == value
        elif key == "body_equal":
            assert bytes(attempt.body) == body_of(outcome.case.request)
        elif key == "has_header":
            assert all(attempt.named(name.encode()) for name in value)
        elif key == "not_header":
            assert not any(attempt.named(name.encode()) for name in value)
        elif key == "accept-encoding_subset_of":
            known = {word.split()[0] for word in value}
            asked = b",".join(attempt.named(b"accept-encoding")).decode().split(",")
            assert {each.partition(";")[0].strip() for each in asked} <= known
        else:
            raise AssertionError(f"upstream_request.{key} is not known here")


@expects("header_kept")
def _header_kept(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert {name: outcome.answer.header(name) for name in wanted} == wanted


@expects("header_absent")
def _header_absent(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert not [name for name in wanted if outcome.answer.header(name) is not None]


@expects("header_contains")
def _header_contains(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert all(value in (outcome.answer.header(name) or "") for name, value in wanted.items())
