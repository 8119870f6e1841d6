"""Every scenario in every dialect: parsed, complete, on time, and the same text everywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.simulator import chat, play, scenarios, text

from .asking import PATHS, Answer, ask, heard, request, stream, whole

DIALECTS = tuple(PATHS)
WHOLE = [name for name, scenario in scenarios.TABLE.items() if scenario.rejection is None and scenario.ending in ("finish", "length")]
ENDS = {
    "chat": {"stop": "stop", "length": "length", "tool": "tool_calls", "refusal": "stop"},
    "completions": {"stop": "stop", "length": "length", "tool": "stop", "refusal": "stop"},
    "responses": {"stop": "completed", "length": "incomplete", "tool": "completed", "refusal": "completed"},
    "messages": {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use", "refusal": "refusal"},
}
LAST = {"responses": b"event: response.", "messages": b"event: message_stop\n"}


def planned(name: str, said: str = "hello") -> play.Plan:
    scenario = scenarios.find(name)
    assert scenario is not None
    return play.plan(scenario, chat.read(request("chat", name, said), {}))


def expected(name: str, dialect: str) -> dict[str, str]:
    plan = planned(name)
    out = {part: "".join(plan.tokens(part)) for part in text.PARTS}
    if dialect == "messages":  # which has no deltas of its own for it
        out["content"] += out["refusal"]
        out["refusal"] = ""
    return out | {"end": ENDS[dialect][plan.finish]}


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
@pytest.mark.parametrize("name", WHOLE)
def test_a_stream_says_the_planned_text_and_ends_in_its_dialects_way(name: str, dialect: str) -> None:
    answer = stream(dialect, name)
    assert heard(dialect, answer) == expected(name, dialect)
    assert answer.complete
    assert answer.body.split(b"\n\n")[-2].startswith(LAST.get(dialect, b"data: [DONE]"))


@pytest.mark.parametrize("name", WHOLE)
def test_completions_say_it_all_as_text_with_tags(name: str) -> None:
    said = heard("completions", stream("completions", name))
    plan = planned(name)
    tagged = "".join(plan.tokens("content"))
    if reasoning := "".join(plan.tokens("reasoning")):
        tagged = f"<think>\n{reasoning}\n</think>\n\n{tagged}"
    if arguments := "".join(plan.tokens("tool")):
        tagged += f'<tool_call>\n{{"name": "edit_file", "arguments": {arguments}}}\n</tool_call>'
    assert said["content"] == tagged + "".join(plan.tokens("refusal"))
    assert said["end"] == ENDS["completions"][plan.finish]


def in_whole(dialect: str, answer: dict[str, Any]) -> dict[str, str]:
    said = {"reasoning": "", "content": "", "tool": "", "refusal": "", "end": ""}
    if dialect in ("chat", "completions"):
        [choice] = answer["choices"]
        message = choice.get("message") or {"content": choice.get("text")}
        said["reasoning"] = message.get("reasoning_content") or message.get("reasoning") or ""
        said["content"], said["refusal"] = message["content"] or "", message.get("refusal") or ""
        said["tool"] = "".join(call["function"]["arguments"] for call in message.get("tool_calls", ()))
        return said | {"end": choice["finish_reason"]}
    if dialect == "messages":
        for block in answer["content"]:
            said["reasoning"] += block.get("thinking", "")
            said["content"] += block.get("text", "")
            said["tool"] += json.dumps(block["input"]) if "input" in block else ""
        return said | {"end": answer["stop_reason"]}
    for item in answer["output"]:
        said["reasoning"] += "".join(part["text"] for part in item.get("summary", ()))
        said["content"] += "".join(part.get("text", "") for part in item.get("content", ()))
        said["refusal"] += "".join(part.get("refusal", "") for part in item.get("content", ()))
        said["tool"] += item.get("arguments", "")
    return said | {"end": answer["status"]}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_without_stream_says_the_same(name: str, dialect: str) -> None:
    streamed, said = heard(dialect, stream(dialect, name)), in_whole(dialect, whole(dialect, name))
    if dialect == "messages" and streamed["tool"]:  # there the arguments are an object and no text
        streamed["tool"], said["tool"] = json.loads(streamed["tool"]), json.loads(said["tool"])
    assert said == streamed


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
@pytest.mark.parametrize("name", [name for name in WHOLE if not (scenarios.TABLE[name].echo or scenarios.TABLE[name].one_write)])
def test_a_burst_is_one_write_at_its_time(name: str, dialect: str) -> None:
    due = [0.0]  # the opening event
    for burst in scenarios.TABLE[name].bursts:
        number = burst.tokens if burst.spread_s else 1
        due += [burst.at_s + burst.spread_s * i / number for i in range(number)]
    due.append(due[-1])  # the closing
    assert stream(dialect, name).times == pytest.approx(due)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_instant_answer_is_one_write(dialect: str) -> None:
    answer = stream(dialect, "instant")
    assert answer.times == pytest.approx([0.05])


def test_deltas_of_one_token_are_one_event_each() -> None:
    answer = stream("chat", "held-to-the-end")
    assert answer.writes[1].count(b"\n\n") == 600


def test_large_deltas_are_one_event_a_burst() -> None:
    answer = stream("chat", "large-deltas")
    assert [write.count(b"\n\n") for write in answer.writes[:-1]] == [1] * (1 + len(scenarios.TABLE["large-deltas"].bursts))


def test_speed_divides_all_times() -> None:
    slow = ask(PATHS["chat"], request("chat", "planner", stream=True))
    fast = ask(PATHS["chat"], request("chat", "planner", stream=True), {"x-simulate-speed": "10"})
    assert fast.times == pytest.approx([at / 10 for at in slow.times])
    assert heard("chat", fast) == heard("chat", slow)


def test_an_answer_without_stream_takes_as_long_as_the_stream() -> None:
    answer = ask(PATHS["chat"], request("chat", "planner"))
    assert answer.times == pytest.approx([planned("planner").ends_at_s])


def test_a_seed_chooses_another_text() -> None:
    by_body = heard("chat", stream("chat", "steady", seed=7))
    by_header = ask(PATHS["chat"], request("chat", "steady", stream=True), {"x-simulate-seed": "7"})
    assert by_body == heard("chat", by_header) != heard("chat", stream("chat", "steady"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_echo_says_the_last_user_message_to_the_character(dialect: str) -> None:
    said = 'Zeile 1\r\n\tZeile 2 "q" \\ e\u0301 👩‍👩‍👧‍👦🇫🇷 流式 \u2028 </think> data: [DONE]\n\n'
    assert heard(dialect, stream(dialect, "echo", said))["content"] == said


def test_echo_finds_the_last_user_message_among_others() -> None:
    messages = [
        {"role": "user", "content": "first"},
        {"role": "user", "content": [{"type": "text", "text": "sec"}, {"type": "text", "text": "ond"}]},
        {"role": "assistant", "content": "third"},
    ]
    assert heard("chat", stream("chat", "echo", messages=messages))["content"] == "second"
    given = [{"role": "user", "content": [{"type": "input_text", "text": "second"}]}]
    assert heard("responses", stream("responses", "echo", input=given))["content"] == "second"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_echo_of_nothing_is_an_empty_answer(dialect: str) -> None:
    said = heard(dialect, stream(dialect, "echo", ""))
    assert said["content"] == ""
    assert said["end"] == ENDS[dialect]["stop"]


def test_echo_of_too_much_is_refused() -> None:
    assert ask(PATHS["chat"], request("chat", "echo", "x" * 200_001)).status == 400


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_finish_ends_cleanly_without_finish_or_terminal_event(dialect: str) -> None:
    answer = stream(dialect, "no-finish")
    said = heard(dialect, answer)
    assert answer.complete
    assert said["content"]
    assert said["end"] == ""
    assert b"[DONE]" not in answer.body


def error_of(dialect: str, answer: Answer) -> Any:
    name, data = answer.events()[-1]
    if dialect == "responses":
        assert name == data["type"] == "response.failed"
        return data["response"]["error"]["code"]
    if dialect == "messages":
        assert name == data["type"] == "error"
    return data["error"]["type"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_in_the_stream_has_its_dialects_shape(dialect: str) -> None:
    answer = stream(dialect, "error-in-stream")
    assert answer.complete
    assert b"[DONE]" not in answer.body
    assert heard(dialect, answer)["content"]
    assert error_of(dialect, answer) == ("overloaded_error" if dialect == "messages" else "server_error")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_without_stream_is_a_500(dialect: str) -> None:
    answer = ask(PATHS[dialect], request(dialect, "error-in-stream"))
    assert answer.status == 500
    assert answer.json()["error"]["type"] == ("api_error" if dialect == "messages" else "server_error")
