"""What a case expects, by name: one function for each key of `expect`. Each takes what is wanted and the outcome, and asserts.

Times are not judged on a busy machine: a bound in milliseconds is taken LENIENT times, for a gateway that hangs; what it stands for is
checked by order or by number where that is possible.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any, Final

import regex

from cases.meaning import Meaning, understand
from cases.player import Outcome
from cases.promises import strict
from cases.reading import body_of

LENIENT: Final = 10.0

Check = Callable[[Any, Outcome, Meaning], None]
CHECKS: dict[str, Check] = {}


def check(outcome: Outcome, besides: Collection[str] = ()) -> None:
    """Everything that the case expects, besides what is named."""
    meaning = understand(outcome.case.api, outcome.answer)
    expect = {key: value for key, value in outcome.case.expect.items() if key not in besides}
    alternatives = expect.pop("outcome_any_of", None)
    if alternatives:
        true = [each for each in alternatives if ALTERNATIVES[each](outcome, meaning)]
        assert true, f"none of {alternatives}"
        if any("error" in each for each in true):  # what stands there for a success does not apply
            expect = {key: value for key, value in expect.items() if key not in ("content", "finish_reason", "n_done")}
    for key, wanted in expect.items():
        CHECKS[key](wanted, outcome, meaning)


def expects(name: str) -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        CHECKS[name] = function
        return function

    return register


def equal(name: str, have: Callable[[Outcome, Meaning], Any]) -> None:
    def function(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
        assert have(outcome, meaning) == wanted

    CHECKS[name] = function


def one_of(name: str, have: Callable[[Outcome, Meaning], Any]) -> None:
    def function(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
        assert have(outcome, meaning) in wanted

    CHECKS[name] = function


def ignored(name: str) -> None:
    CHECKS[name] = lambda wanted, outcome, meaning: None


ignored("assert")  # words for people
ignored("content_lstrip_ok")  # asked for by `content`
ignored("repeat")  # the player's

# What was said

equal("reasoning", lambda outcome, meaning: meaning.reasoning)
equal("n_done", lambda outcome, meaning: meaning.done)
equal("status", lambda outcome, meaning: outcome.answer.status)
equal("logprob_tokens", lambda outcome, meaning: [each["token"] for each in meaning.collected.first.logprobs])
one_of("content_any_of", lambda outcome, meaning: meaning.content)
one_of("finish_reason_any_of", lambda outcome, meaning: meaning.finish)


@expects("content")
def _content(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    have = meaning.content
    assert have == wanted or (outcome.case.expect.get("content_lstrip_ok") and have.lstrip() == wanted.lstrip())


@expects("content_repeat")
def _content_repeat(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    unit, count, suffix = wanted
    assert meaning.content == unit * count + suffix


@expects("finish_reason")
def _finish_reason(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert meaning.finish == wanted
    assert meaning.error is None
    if wanted is not None:
        assert outcome.ends.get("whole"), "a whole stream that is booked as a failure"


@expects("finish_reason_not")
def _finish_reason_not(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert meaning.finish not in (wanted if isinstance(wanted, list) else [wanted])


@expects("n_done_max")
def _n_done_max(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert meaning.done <= wanted


@expects("choices")
def _choices(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    have = {str(index): choice for index, choice in meaning.collected.choices.items()}
    assert have.keys() == wanted.keys()
    for index, each in wanted.items():
        assert (have[index].content, have[index].finish) == (each["content"], each["finish_reason"])


@expects("finish_frames")
def _finish_frames(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert meaning.collected.first.finish_frames == wanted
    assert meaning.collected.order[-1] == (0, "finish")


@expects("tool_calls")
def _tool_calls(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert len(meaning.calls) == len(wanted)
    for have, want in zip(meaning.calls, wanted, strict=True):
        for key, value in want.items():
            if key == "arguments_json":
                assert json.loads(have["arguments"]) == value
            else:
                assert have[key] == value
    assert all(call.id_frames <= 1 for call in meaning.collected.first.calls.values())


@expects("usage")
def _usage(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert {key: meaning.usage[key] for key in wanted} == wanted


@expects("metered_usage")
def _metered_usage(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert outcome.usage == {"input": wanted["prompt_tokens"], "output": wanted["completion_tokens"]}


@expects("preserve")
def _preserve(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    """Each field arrives as it was sent, as often as it was sent."""
    sent = [json.loads(data) for data in re.findall(r"data: (\{.*\})", outcome.case.plays[0].body.decode())]
    for each in wanted:
        values = found(each["field"], meaning.objects)
        assert values
        assert values == found(each["field"], sent)
        if "value" in each:
            assert values == [each["value"]]
        if "contains" in each:
            assert each["contains"] in json.dumps(values, ensure_ascii=False)


@expects("strict_json_out")
def _strict_json_out(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    for event in outcome.answer.events:
        assert event.data == "[DONE]" or strict(event.data) is not None


@expects("json_body")
def _json_body(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert outcome.answer.header("content-type") == "application/json"
    assert outcome.answer.whole
    for path, value in wanted.items():
        assert at(path, outcome.answer.json()) == value


# Errors


def in_band(meaning: Meaning) -> bool:
    return meaning.error is not None


@expects("error_in_band")
def _error_in_band(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert (in_band(meaning) or outcome.answer.status >= 400) == wanted
    if wanted:
        assert not outcome.ends.get("whole"), "a failure that is booked as a whole stream"


@expects("error_status")
def _error_status(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert outcome.answer.status in outcome.case.expect.get("error_status_any_of", [wanted])


ignored("error_status_any_of")


@expects("error_json")
def _error_json(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert "message" in outcome.answer.json()["error"]


@expects("error_code")
def _error_code(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert outcome.answer.json()["error"]["code"] == wanted
    assert outcome.answer.body == outcome.case.plays[0].body


@expects("outcome")
def _outcome(wanted: Any, outcome: Outcome, meaning: Meaning) -> None:
    assert wanted == "client_abort"
    assert outcome.ends.get("client_gone") == outcome.case.expect.get("repeat", 1)


ALTERNATIVES: Final[dict[str, Callable[[Outcome, Meaning], bool]]] = {
    "success": lambda outcome, meaning: outcome.answer.whole and meaning.finish is not None and not in_band(meaning),
    "content ok": lambda outcome, meaning: meaning.content == outcome.case.expect["content"],
    "content=='ndjson'": lambda outcome, meaning: meaning.content == "ndjson",
    "content=='second try'": lambda outcome, meaning: meaning.content == "second try",
    "error_in_band": lambda outcome, meaning: in_band(meaning),
    "error_status==502": lambda outcome, meaning: outcome.answer.status == 502,
    "error_status>=500": lambda outcome, meaning: outcome.answer.status >= 500,
    "n_done==1": lambda outcome, meaning: meaning.done == 1,
}

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


# Paths into JSON


def found(path: str, objects: list[Any]) -> list[Any]:
    """All values at a path like `choices[].delta.refusal`."""
    values = objects
    for step in path.split("."):
        name, many = step.removesuffix("[]"), step.endswith("[]")
        values = [each[name] for each in values if isinstance(each, dict) and each.get(name) is not None]
        if many:
            values = [one for each in values for one in each]
    return values


def at(path: str, value: Any) -> Any:
    """The value at a path like `choices[0].message.content`."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        value = value[name] if name else value[int(index)]
    return value
