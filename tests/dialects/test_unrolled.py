"""Whole answers of Messages and Responses as the streams that they would have been: added up again they are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import Messages, Responses
from gateway.dialects.base import Dialect
from gateway.errors import Failure
from gateway.wire.sse import Decoder, Event
from support.chunks import compact

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "Hi 😀", "citations": [{"type": "char_location", "n": 1}]},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"n": 1.5}},
        {"type": "redacted_thinking", "data": "x"},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 9},
}
TEXT = {"type": "output_text", "text": "Hi 😀", "annotations": [{"type": "url_citation", "url": "u"}], "logprobs": []}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "m",
    "error": None,
    "output": [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "c2ln"},
        {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [TEXT, {"type": "refusal", "refusal": "no"}]},
        {"type": "function_call", "id": "c", "call_id": "d", "name": "f", "arguments": '{"n":1.50}', "status": "completed"},
        {"type": "web_search_call", "id": "w", "status": "completed"},
    ],
    "usage": {"input_tokens": 3, "output_tokens": 9},
}


def unrolled(dialect: type[Dialect], value: Any) -> list[Event]:
    made = dialect.as_stream(b"application/json", value if isinstance(value, bytes) else compact(value).encode())
    assert isinstance(made, bytes), made
    return Decoder(2**20).feed(made)


@pytest.mark.parametrize(("dialect", "value"), [(Messages, MESSAGE), (Responses, RESPONSE)])
def test_added_up_again_it_is_the_same(dialect: type[Dialect], value: Any) -> None:
    made = dialect.gathered(unrolled(dialect, value))
    assert isinstance(made, bytes)
    assert json.loads(made) == value


@pytest.mark.parametrize(("dialect", "value"), [(Messages, MESSAGE), (Responses, RESPONSE)])
def test_it_goes_through_the_dialect_like_any_other(dialect: type[Messages | Responses], value: Any) -> None:
    reader = dialect()
    events = unrolled(dialect, value)
    data = b"".join(piece.data for event in events for piece in reader.read(event))
    assert (reader.proven, reader.ended, reader.failure) == (True, True, None)
    assert data == b"".join(event.raw for event in events)
    assert all(event.name is not None and json.loads(event.data)["type"] == event.name.decode() for event in events)


def test_texts_come_as_deltas_and_numbers_keep_their_digits() -> None:
    body = compact(MESSAGE).replace('{"n":1.5}', '{"n":1.50}').encode()
    deltas = [json.loads(event.data)["delta"] for event in unrolled(Messages, body) if event.name == b"content_block_delta"]
    assert [delta["type"] for delta in deltas] == ["thinking_delta", "signature_delta", "text_delta", "citations_delta", "input_json_delta"]
    assert deltas[-1]["partial_json"] == '{"n":1.50}'


def test_the_events_of_a_response_are_numbered_from_zero_and_its_items_open_empty() -> None:
    events = [json.loads(event.data) for event in unrolled(Responses, RESPONSE)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["delta"] for event in events if event["type"].endswith(".delta")] == ["hm", "Hi 😀", "no", '{"n":1.50}']
    [added] = [event["item"] for event in events if event["type"] == "response.output_item.added" and event["item"]["type"] == "message"]
    assert (added["content"], added["status"]) == ([], "in_progress")
    assert events[-1] == {"type": "response.completed", "sequence_number": len(events) - 1, "response": RESPONSE}


def test_an_answer_over_several_lines_is_one_all_the_same() -> None:
    assert unrolled(Messages, json.dumps(MESSAGE, indent=2).encode())[-1].name == b"message_stop"


@pytest.mark.parametrize("dialect", [Messages, Responses])
@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>", b"[]", b"{}", b"null", b'{"content":null}', b'{"content":[null],"stop_reason":"end_turn"}', b'{"content":[],"stop_reason":null}',
        b'{"object":"response","status":"queued","output":[]}', b'{"object":"response","status":"completed","output":[1]}', b'{"object":"response"}', b"\xff",
    ],
)  # fmt: skip
def test_what_is_no_whole_answer_is_a_failure_that_names_what_came(dialect: type[Dialect], body: bytes) -> None:
    made = dialect.as_stream(b"application/x-odd", body)
    assert isinstance(made, Failure)
    assert made.code == "upstream_not_a_stream"
    assert "application/x-odd" in made.message


def test_a_response_that_failed_is_its_error() -> None:
    failed = {**RESPONSE, "status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"}}
    made = Responses.as_stream(b"application/json", compact(failed).encode())
    assert isinstance(made, Failure)
    assert (made.message, made.http_status) == ("slow", 429)
