"""Reasoning kept back in Responses and Messages: what is left is still a stream of its protocol, fit for the next turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.messages import Messages
from gateway.dialects.responses import Responses
from gateway.dialects.typed import TypedDialect
from gateway.wire.sse import Event

SECRET = "secret thoughts"
SUMMARY = [{"type": "summary_text", "text": SECRET}]
ITEM = {"id": "rs_1", "type": "reasoning", "summary": SUMMARY, "encrypted_content": "gAAAA+/=é"}
ANSWER = {"id": "msg_1", "type": "message", "content": [{"type": "output_text", "text": "answer"}]}
WHERE = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}

RESPONSES: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"id": "r", "model": "m", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "summary": []}},
    {"type": "response.reasoning_summary_part.added", **WHERE, "part": {"type": "summary_text", "text": ""}},
    {"type": "response.reasoning_summary_text.delta", **WHERE, "delta": "secret "},
    {"type": "response.reasoning_summary_text.delta", **WHERE, "delta": "thoughts"},
    {"type": "response.reasoning_summary_text.done", **WHERE, "text": SECRET},
    {"type": "response.reasoning_summary_part.done", **WHERE, "part": SUMMARY[0]},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "answer"},
    {"type": "response.output_item.done", "output_index": 1, "item": ANSWER},
    {"type": "response.completed", "response": {"id": "r", "output": [ITEM, ANSWER], "usage": {"output_tokens": 9}}},
]
for number, event in enumerate(RESPONSES):
    event["sequence_number"] = number

MESSAGES: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "secret "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "thoughts"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQB+/=é"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "opaque"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "about thinking_delta"}},
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]


def play(dialect: TypedDialect, events: list[dict[str, Any]]) -> tuple[bytes, list[dict[str, Any]]]:
    out = b""
    for event in events:
        data = json.dumps(event, ensure_ascii=False).encode()
        name = event["type"].encode()
        out += b"".join(piece.data for piece in dialect.read(Event(name, data, b"event: " + name + b"\ndata: " + data + b"\n\n")))
    return out, [json.loads(line[6:]) for line in out.decode().split("\n") if line.startswith("data: ")]


def test_hidden_responses_hold_no_reasoning_text_and_are_numbered_without_gaps() -> None:
    dialect = Responses(0.0)
    out, events = play(dialect, RESPONSES)
    assert b"secret" not in out
    assert b"thoughts" not in out
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"].rpartition(".")[0] for event in events].count("response.output_item") == 3
    assert events[-1]["response"]["output"] == [{**ITEM, "summary": []}, ANSWER]
    assert out.count('"encrypted_content":"gAAAA+/=é"'.encode()) + out.count('"encrypted_content": "gAAAA+/=é"'.encode()) == 3
    assert dialect.usage is not None
    assert dialect.proven
    assert dialect.withheld == pytest.approx(len(SECRET) / 4)


def test_responses_repeat_no_more_reasoning_than_was_delivered() -> None:
    _, events = play(Responses(2.0), RESPONSES)
    deltas = "".join(event["delta"] for event in events if event["type"] == "response.reasoning_summary_text.delta")
    assert deltas == "secret "
    texts = [event["text"] for event in events if event["type"] == "response.reasoning_summary_text.done"]
    parts = [event["part"]["text"] for event in events if event["type"] == "response.reasoning_summary_part.done"]
    item = next(event["item"] for event in events if event["type"] == "response.output_item.done")
    assert texts == parts == [item["summary"][0]["text"]] == [events[-1]["response"]["output"][0]["summary"][0]["text"]] == [deltas]


def test_responses_within_the_limit_keep_their_bytes() -> None:
    assert play(Responses(100.0), RESPONSES)[0] == play(Responses(), RESPONSES)[0]


def test_reasoning_text_of_open_models_is_hidden_as_summaries_are() -> None:
    where = {"output_index": 0, "content_index": 0}
    sent = [
        {"type": "response.content_part.added", **where, "part": {"type": "reasoning_text", "text": ""}},
        {"type": "response.reasoning_text.delta", **where, "delta": SECRET},
        {"type": "response.reasoning_text.done", **where, "text": SECRET},
        {"type": "response.content_part.done", **where, "part": {"type": "reasoning_text", "text": SECRET}},
        {"type": "response.content_part.added", "output_index": 1, "content_index": 0, "part": {"type": "output_text", "text": ""}},
        {"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "content": SUMMARY}},
    ]
    out, events = play(Responses(0.0), sent)
    assert b"secret" not in out
    assert [event["type"] for event in events] == ["response.content_part.added", "response.output_item.done"]


def test_hidden_messages_keep_blocks_and_signatures_as_omitted_thinking_does() -> None:
    dialect = Messages(0.0)
    out, events = play(dialect, MESSAGES)
    assert b"secret" not in out
    assert events == [event for event in MESSAGES if "secret" not in str(event) and "thoughts" not in str(event)]
    assert dialect.usage is not None
    assert dialect.withheld == pytest.approx(len(SECRET) / 4)


def test_a_thinking_block_that_opens_with_text_opens_empty() -> None:
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": SECRET, "signature": ""}}
    _, events = play(Messages(0.0), [MESSAGES[0], block])
    assert events[1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}


def test_messages_stop_thinking_at_the_limit() -> None:
    _, events = play(Messages(2.0), MESSAGES)
    assert "".join(event.get("delta", {}).get("thinking", "") for event in events) == "secret "
    assert play(Messages(100.0), MESSAGES)[0] == play(Messages(), MESSAGES)[0]
