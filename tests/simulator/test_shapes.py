"""The events of each dialect have the shapes and the order that the providers' own have."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from gateway.simulator.encode import seal

from .asking import ask, heard, request, stream, whole

# --- chat completions


def test_chat_opens_with_the_role_and_ends_with_finish_then_done() -> None:
    answer = stream("chat", "smooth-then-clusters")
    chunks = [data for _, data in answer.events()]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert all("role" not in chunk["choices"][0]["delta"] for chunk in chunks[1:])
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[-2:]] == [None, "stop"]
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert answer.body.endswith(b"data: [DONE]\n\n")


def test_chat_chunks_share_one_envelope() -> None:
    chunks = [data for _, data in stream("chat", "steady").events()]
    keys = ("id", "object", "created", "model", "service_tier", "system_fingerprint")
    assert len({tuple(chunk[key] for key in keys) for chunk in chunks}) == 1
    assert chunks[0]["object"] == "chat.completion.chunk"
    assert chunks[0]["id"].startswith("chatcmpl-")
    assert stream("chat", "steady").events()[0][1]["id"] != chunks[0]["id"]


def test_chat_usage_comes_once_in_a_chunk_without_choices_and_only_if_asked_for() -> None:
    chunks = [data for _, data in stream("chat", "clusters", stream_options={"include_usage": True}).events()]
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert chunks[-1]["choices"] == []
    usage = chunks[-1]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]
    assert usage == whole("chat", "clusters")["usage"] | {"prompt_tokens": usage["prompt_tokens"]}
    assert not any("usage" in data for _, data in stream("chat", "instant").events())


def test_chat_obfuscation_is_there_unless_it_is_refused() -> None:
    assert all(data["obfuscation"] for _, data in stream("chat", "instant").events())
    quiet = stream("chat", "instant", stream_options={"include_obfuscation": False})
    assert not any("obfuscation" in data for _, data in quiet.events())


def test_chat_tool_call_opens_with_id_and_name_and_empty_arguments() -> None:
    deltas = [data["choices"][0]["delta"] for _, data in stream("chat", "tool-call").events()]
    first, *rest = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert first["index"] == 0
    assert first["type"] == "function"
    assert first["id"].startswith("call_")
    assert first["function"] == {"name": "edit_file", "arguments": ""}
    assert all(set(call) == {"index", "function"} and set(call["function"]) == {"arguments"} for call in rest)


def test_chat_choices_have_texts_of_their_own_and_end_each() -> None:
    texts, ends = Counter[int](), Counter[int]()
    said: dict[int, str] = {}
    for _, data in stream("chat", "steady", n=3).events():
        for choice in data["choices"]:
            texts[choice["index"]] += "content" in choice["delta"]
            said[choice["index"]] = said.get(choice["index"], "") + choice["delta"].get("content", "")
            ends[choice["index"]] += choice["finish_reason"] is not None
    assert texts == {0: 1001, 1: 1001, 2: 1001}  # with the role's empty one
    assert ends == {0: 1, 1: 1, 2: 1}
    assert len(set(said.values())) == 3
    choices = whole("chat", "steady", n=3)["choices"]
    assert {choice["index"]: choice["message"]["content"] for choice in choices} == said


def test_chat_log_probabilities_go_with_their_tokens_and_only_if_asked_for() -> None:
    for _, data in stream("chat", "large-deltas", logprobs=True).events()[1:-1]:
        [choice] = data["choices"]
        marks = choice["logprobs"]["content"]
        assert "".join(mark["token"] for mark in marks) == choice["delta"]["content"]
        assert all(bytes(mark["bytes"]).decode() == mark["token"] and mark["logprob"] < 0 for mark in marks)
    assert all(data["choices"][0]["logprobs"] is None for _, data in stream("chat", "large-deltas").events())
    message = whole("chat", "instant", logprobs=True)["choices"][0]
    assert "".join(mark["token"] for mark in message["logprobs"]["content"]) == message["message"]["content"]


def test_reasoning_has_the_field_that_the_scenario_names() -> None:
    for name, field in (("clusters", "reasoning_content"), ("reasoning-field", "reasoning")):
        deltas = [data["choices"][0]["delta"] for _, data in stream("chat", name).events()]
        assert {key for delta in deltas for key in delta if key.startswith("reasoning")} == {field}
        assert field in whole("chat", name)["choices"][0]["message"]


def test_think_tags_stand_in_the_content_and_are_cut_between_deltas() -> None:
    deltas = [data["choices"][0]["delta"].get("content", "") for _, data in stream("chat", "think-tags").events()]
    said = "".join(deltas)
    assert said.startswith("<think>\n")
    assert said.count("</think>\n\n") == 1
    assert not any("<think>" in delta or "</think>" in delta for delta in deltas)


# --- completions


def test_completions_offsets_count_the_characters_of_the_whole_text() -> None:
    said = ""
    for _, data in stream("completions", "large-deltas", logprobs=1).events():
        [choice] = data["choices"]
        if marks := choice["logprobs"]:
            offsets = itertools.accumulate(map(len, marks["tokens"][:-1]), initial=len(said))
            assert marks["text_offset"] == list(offsets)
            assert "".join(marks["tokens"]) == choice["text"]
            assert len(marks["token_logprobs"]) == len(marks["top_logprobs"]) == len(marks["tokens"])
        said += choice["text"]
    assert said == whole("completions", "large-deltas")["choices"][0]["text"]


def test_completions_answer_every_prompt_n_times() -> None:
    answer = stream("completions", "instant", prompt=["a", "b"], n=2, stream_options={"include_usage": True})
    chunks = [data for _, data in answer.events()]
    assert {choice["index"] for chunk in chunks for choice in chunk["choices"]} == {0, 1, 2, 3}
    assert chunks[-1]["usage"]["completion_tokens"] == 4 * 24
    assert chunks[-1]["object"] == "text_completion"


# --- responses

OPENINGS = {
    "response.output_item.done": "response.output_item.added",
    "response.content_part.done": "response.content_part.added",
    "response.reasoning_summary_part.done": "response.reasoning_summary_part.added",
    "response.output_text.done": "response.content_part.added",
    "response.refusal.done": "response.content_part.added",
    "response.reasoning_summary_text.done": "response.reasoning_summary_part.added",
    "response.function_call_arguments.done": "response.output_item.added",
    "response.output_text.delta": "response.content_part.added",
    "response.refusal.delta": "response.content_part.added",
    "response.reasoning_summary_text.delta": "response.reasoning_summary_part.added",
    "response.function_call_arguments.delta": "response.output_item.added",
}


def place(data: dict[str, Any]) -> tuple[Any, ...]:
    item = data.get("item_id") or data.get("item", {}).get("id")
    return data["output_index"], item, data.get("summary_index"), data.get("content_index")


@pytest.mark.parametrize("name", ["smooth-then-clusters", "tool-call", "refusal", "out-of-tokens", "think-tags", "echo"])
def test_responses_events_are_numbered_and_everything_is_opened_before_and_closed_after(name: str) -> None:
    events = stream("responses", name, said="say it").events()
    assert all(event == data["type"] for event, data in events)
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    kinds = [data["type"] for _, data in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] in ("response.completed", "response.incomplete")
    opened: dict[tuple[str, tuple[Any, ...]], str] = {}
    for _, data in events[2:-1]:
        kind = data["type"]
        if kind.endswith(".added"):
            opened[kind, place(data)] = ""
            continue
        key = (OPENINGS[kind], place(data))
        assert key in opened  # opened before, not yet closed
        if kind.endswith(".delta"):
            opened[key] += data["delta"]
        elif kind in ("response.output_item.done", "response.content_part.done", "response.reasoning_summary_part.done"):
            del opened[key]
        else:
            assert opened[key] == data.get("text", data.get("refusal", data.get("arguments")))
    assert opened == {}


@pytest.mark.parametrize("name", ["smooth-then-clusters", "tool-call", "out-of-tokens"])
def test_responses_completed_repeats_the_items_that_were_done(name: str) -> None:
    events = [data for _, data in stream("responses", name).events()]
    done = [data["item"] for data in events if data["type"] == "response.output_item.done"]
    last = events[-1]["response"]
    assert last["output"] == done
    assert [data["output_index"] for data in events if data["type"] == "response.output_item.added"] == list(range(len(done)))
    assert last["id"] == events[0]["response"]["id"]
    assert events[0]["response"]["output"] == []
    assert last["usage"]["total_tokens"] == last["usage"]["input_tokens"] + last["usage"]["output_tokens"]
    assert last["incomplete_details"] == ({"reason": "max_output_tokens"} if name == "out-of-tokens" else None)


def test_responses_summaries_have_a_part_for_each_paragraph_with_its_heading() -> None:
    item = whole("responses", "clusters")["output"][0]
    assert item["type"] == "reasoning"
    assert len(item["summary"]) > 3
    assert all(part["text"].startswith("**") for part in item["summary"])


def test_responses_encrypted_reasoning_is_there_if_included_and_belongs_to_the_text() -> None:
    events = stream("responses", "clusters", include=["reasoning.encrypted_content"]).events()
    added = next(data["item"] for _, data in events if data["type"] == "response.output_item.added")
    done = next(data["item"] for _, data in events if data["type"] == "response.output_item.done")
    assert added["encrypted_content"] != done["encrypted_content"]
    assert done["encrypted_content"] == seal(heard("responses", stream("responses", "clusters"))["reasoning"], 768)
    assert b"encrypted_content" not in stream("responses", "clusters").body


def test_responses_obfuscation_and_log_probabilities_follow_the_request() -> None:
    deltas = [data for _, data in stream("responses", "instant").events() if data["type"].endswith(".delta")]
    assert all(data["obfuscation"] and data["logprobs"] == [] for data in deltas)
    include = ["message.output_text.logprobs"]
    answer = stream("responses", "instant", include=include, stream_options={"include_obfuscation": False})
    deltas = [data for _, data in answer.events() if data["type"].endswith(".delta")]
    assert all("obfuscation" not in data and data["logprobs"][0]["token"] == data["delta"] for data in deltas)


def test_responses_repeat_what_the_request_set() -> None:
    answer = whole("responses", "instant", instructions="Be brief.", metadata={"a": "b"}, temperature=0.2, store=False)
    assert (answer["instructions"], answer["metadata"], answer["temperature"], answer["store"]) == ("Be brief.", {"a": "b"}, 0.2, False)


# --- messages


@pytest.mark.parametrize("name", ["smooth-then-clusters", "tool-call", "refusal", "out-of-tokens", "echo"])
def test_messages_blocks_open_and_close_in_order_with_deltas_of_their_kind(name: str) -> None:
    events = stream("messages", name, said="say it").events()
    assert all(event == data["type"] for event, data in events)
    kinds = [data["type"] for _, data in events]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    index, block, deltas = -1, None, set[str]()
    allowed = {"thinking": {"thinking_delta", "signature_delta"}, "text": {"text_delta"}, "tool_use": {"input_json_delta"}}
    for _, data in events[2:-2]:
        if data["type"] == "content_block_start":
            assert block is None
            index, block, deltas = index + 1, data["content_block"]["type"], set()
        elif data["type"] == "content_block_delta":
            deltas.add(data["delta"]["type"])
        else:
            assert data["type"] == "content_block_stop"
            assert block is not None
            assert deltas == allowed[block]
            block = None
        assert data["index"] == index
    assert block is None


def test_messages_thinking_ends_with_a_signature_that_belongs_to_the_text() -> None:
    answer = stream("messages", "clusters")
    deltas = [data["delta"] for _, data in answer.events() if data["type"] == "content_block_delta"]
    [signature] = [delta["signature"] for delta in deltas if delta["type"] == "signature_delta"]
    assert signature == seal(heard("messages", answer)["reasoning"])
    assert whole("messages", "clusters")["content"][0]["signature"] == signature


def test_messages_usage_starts_with_one_token_and_ends_with_all() -> None:
    events = stream("messages", "steady").events()
    start, end = events[0][1]["message"]["usage"], events[-2][1]["usage"]
    assert (start["output_tokens"], end["output_tokens"]) == (1, 1000)
    assert start["input_tokens"] == end["input_tokens"] > 0


def test_messages_tool_use_opens_with_id_name_and_empty_input() -> None:
    blocks = [data["content_block"] for _, data in stream("messages", "tool-call").events() if data["type"] == "content_block_start"]
    assert blocks[-1]["id"].startswith("toolu_")
    assert (blocks[-1]["name"], blocks[-1]["input"]) == ("edit_file", {})


def test_messages_tokens_can_be_counted() -> None:
    short = ask("/v1/messages/count_tokens", request("messages", "steady", "x" * 40)).json()["input_tokens"]
    assert ask("/v1/messages/count_tokens", request("messages", "steady", "x" * 440)).json() == {"input_tokens": short + 100}
