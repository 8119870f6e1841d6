"""What a case expects of the answer: its text, its end, its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from cases.expecting import at, equal, expects, found, ignored, one_of
from cases.meaning import Meaning
from cases.player import Outcome
from cases.promises import strict

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
    assert outcome.open_connections <= 1, "connections of clients that left are kept"


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
