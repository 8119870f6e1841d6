"""Slips of real servers that are mended, in every dialect: what breaks clients is put right, what is lost is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dialects.reading import event, meaning, objects, pieces, said
from gateway.dialects import Chat, Dialect, Messages, Responses
from gateway.piece import Piece
from gateway.wire.sse import Decoder
from support.chunks import DONE, ROLE, STOP, chunk

_TEXT = {
    Chat: chunk("@"),
    Responses: '{"type":"response.output_text.delta","sequence_number":0,"item_id":"i","output_index":0,"content_index":0,"delta":"@"}',
    Messages: '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"@"}}',
}
EACH = pytest.mark.parametrize("kind", _TEXT, ids=["chat", "responses", "messages"])


def text_of(made: Any) -> str:
    if "choices" in made:
        return str(made["choices"][0]["delta"].get("content", ""))
    return str(made["delta"]["text"] if isinstance(made["delta"], dict) else made["delta"])


def read(dialect: Dialect, raw: bytes) -> list[Piece]:
    return [piece for each in Decoder(2**20).feed(raw) for piece in dialect.read(each)]


@EACH
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (b"a\tb\x00c", "a\tb\x00c"),
        (b"a\xffb", "a\ufffdb"),
        (b"\xed\xa0\xbd\xed\xba\x80", "\U0001f680"),
        (b"a\ndata: b", "a\nb"),
    ],
    ids=["control characters", "no UTF-8", "a pair as two halves", "a line end in a string"],
)
def test_text_that_json_forbids_is_read_as_it_was_meant(kind: type[Dialect], written: bytes, meant: str) -> None:
    dialect = kind()
    dialect.read(event(_TEXT[kind].replace("@", "first")))
    found = read(dialect, b"data: " + _TEXT[kind].encode().replace(b"@", written) + b"\n\n")
    assert "".join(map(text_of, objects(found))) == meant
    assert dialect.failure is None


@EACH
def test_events_that_were_framed_twice_are_read(kind: type[Dialect]) -> None:
    dialect = kind()
    for framed in (b"data: data: ", b"data:data:data: "):
        assert text_of(objects(read(dialect, framed + _TEXT[kind].encode() + b"\n\n"))[0]) == "@"
    assert dialect.failure is None


@EACH
@pytest.mark.parametrize(
    "told",
    [
        b'{\n  "error": {\n    "message": "boom",\n    "code": 503\n  }\n}\n\n',
        b'[{\n  "error": {\n    "message": "boom",\n    "code": 503\n  }\n}\n]\n\n',
        b'error: {"error":{"message":"boom","code":503}}\n\n',
        b'data: {"error":{"message":"boom","code":503}}\n\n',
    ],
    ids=["bare, over lines", "bare, in a list", "as a field", "as an event"],
)
def test_an_error_is_found_however_it_is_written_and_told_in_the_clients_protocol(kind: type[Dialect], told: bytes) -> None:
    dialect = kind()
    if kind is Responses:
        dialect.read(event('{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","output":[]}}'))
    dialect.read(event(_TEXT[kind]))
    assert read(dialect, told) == []
    assert dialect.failure is not None
    assert dialect.failure.http_status == 503
    [made] = objects([dialect.fail(dialect.failure)])
    if kind is Responses:
        assert (made["type"], made["response"]["error"]["message"]) == ("response.failed", "boom")
    else:
        assert made["error"]["message"] == "boom"
        assert kind is Chat or made["type"] == "error"


def test_a_type_that_only_the_events_name_says_is_written_into_it() -> None:
    for kind in (Responses, Messages):
        whole = json.loads(_TEXT[kind])
        name = whole.pop("type")
        [made] = objects(kind().read(event(json.dumps(whole), name.encode())))
        assert made == {"type": name, **whole}


def test_a_delta_that_is_null_is_an_empty_one() -> None:
    [made] = objects(Responses().read(event(_TEXT[Responses].replace('"@"', "null"))))
    assert made["delta"] == ""


# A whole answer as the one event of a stream


def test_a_whole_completion_in_an_event_is_the_answer() -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "all"}, "finish_reason": "stop"}
    got = meaning(json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}), DONE)
    assert (got.first.content, got.first.finish, got.done) == ("all", "stop", 1)


def test_a_message_behind_the_deltas_is_left_alone() -> None:
    """MiniMax's servers repeat the whole text at the end."""
    last = {"index": 0, "message": {"role": "assistant", "content": "all"}, "finish_reason": "stop"}
    got = meaning(ROLE, chunk("all"), json.dumps({"id": "chatcmpl-t1", "object": "chat.completion", "choices": [last]}), DONE)
    assert (got.first.content, got.first.finish) == ("all", "stop")


def test_a_whole_response_or_message_in_an_event_is_the_stream_that_it_would_have_been() -> None:
    part = {"type": "output_text", "text": "all", "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    response = {"id": "r", "object": "response", "status": "completed", "output": [item]}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "all"}], "stop_reason": "end_turn"}
    for dialect, whole, last in ((Responses(), response, "response.completed"), (Messages(), message, "message_stop")):
        made = objects(dialect.read(event(json.dumps(whole))))
        assert "".join(text_of(each) for each in made if each["type"] in ("response.output_text.delta", "content_block_delta")) == "all"
        assert made[-1]["type"] == last
        assert dialect.ended


# Finish reasons


@pytest.mark.parametrize("nothing", ['""', '"null"', '"None"', "false", "0"])
def test_what_stands_for_no_finish_reason_is_none(nothing: str) -> None:
    odd = chunk("a").replace('"finish_reason":null', f'"finish_reason":{nothing}')
    got = meaning(ROLE, odd, odd, STOP, DONE)
    assert (got.first.content, got.first.finish, got.first.finish_frames) == ("aa", "stop", 1)


@pytest.mark.parametrize("last", ["response.completed", "response.incomplete", "response.cancelled", "response.done"])
def test_a_response_ends_with_any_of_its_last_events(last: str) -> None:
    dialect = Responses()
    dialect.read(event(json.dumps({"type": last, "sequence_number": 0, "response": {"id": "r"}})))
    assert dialect.ended
    assert dialect.proven


def test_an_overloaded_anthropic_server_has_that_apis_status() -> None:
    dialect = Messages()
    dialect.read(event('{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', b"error"))
    assert dialect.failure is not None
    assert dialect.failure.http_status == 529


def test_what_was_mended_says_nothing_else() -> None:
    assert said(pieces(ROLE, chunk("a"), STOP, DONE)) == [ROLE, chunk("a"), STOP, DONE]
