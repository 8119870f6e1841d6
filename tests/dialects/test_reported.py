"""Errors in the many shapes that servers give them: recognised, with their words, and in each dialect's own shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dialects.reading import event
from gateway.dialects import Chat, Messages, Responses
from gateway.dialects.base import Dialect
from gateway.dialects.reported import REFUSAL_BYTES, refused, reported, reported_in
from gateway.errors import Failure
from gateway.wire import jsontext
from support.chunks import ROLE, USAGE, chunk, compact

SHAPES: list[tuple[str, str, int]] = [
    ('{"error":{"message":"slow","code":429}}', "slow", 429),
    ('{"error":"slow down"}', "slow down", 502),
    ('{"error":"slow down","code":429}', "slow down", 429),
    ('{"error":{"code":429,"msg":"slow"}}', "slow", 429),
    ('{"error":[{"message":"first"}]}', "first", 502),
    ('{"object":"error","message":"no such model","type":"NotFoundError","param":null,"code":404}', "no such model", 404),
    ('{"message":"no such model","type":"NotFoundError","code":404}', "no such model", 404),
    ('{"detail":"nope"}', "nope", 502),
    ('{"detail":[{"loc":["body","x"],"msg":"field required","type":"missing"}]}', "field required", 502),
    ('{"errors":[{"message":"x","code":503}],"success":false,"result":null}', "x", 503),
    ('{"code":429,"msg":"slow"}', "slow", 429),
    ('{"status":"error","message":"broken"}', "broken", 502),
    ('{"success":false,"message":"broken"}', "broken", 502),
    ('{"type":"about:blank","title":"Too many","status":429,"detail":"slow"}', "slow", 429),
    ('{"message":"Internal server error"}', "Internal server error", 502),
    ('{"message":"no Route matched","request_id":"r"}', "no Route matched", 502),
    ('{"base_resp":{"status_code":1008,"status_msg":"no balance"}}', "no balance", 402),
    ('{"id":"x","choices":null,"base_resp":{"status_code":1002,"status_msg":"slow"}}', "slow", 429),
    ('[{"error":{"code":429,"message":"q","status":"RESOURCE_EXHAUSTED"}}]', "q", 429),
    ('{\n  "error": {\n    "message": "q",\n    "code": 429\n  }\n}', "q", 429),
]
NONE = [
    chunk("a"), chunk("a", top={"error": None}), chunk("a", top={"code": 1, "message": "m", "detail": "d"}),
    chunk("a", top={"base_resp": {"status_code": 0, "status_msg": ""}}), compact({"id": "x", "choices": [], "usage": USAGE}),
    '{"error":null}', '{"error":0}', '{"error":[]}', '{"error":false}', '{"error":""}', '{"error":{}}', "{}", '{"id":"x","usage":{"total_tokens":1}}',
    '{"type":"progress","message":"half done"}', '{"type":"x","detail":"d","errors":[1]}', '{"object":"x.event","detail":"d"}',
    '{"code":0,"msg":"success"}', '{"code":"200","message":"ok","data":1}', '{"status":"ok","message":"fine"}', '{"model":"m","message":{"role":"assistant"},"done":false}',
    '{"message":{},"code":null}', '{"message":"","code":4}', '{"base_resp":{"status_code":0,"status_msg":"success"}}', '{"detail":null}', '{"errors":[]}',
    '{"message":"step 1","step":1}', "[]", "[1]", "null", "7", "words",
]  # fmt: skip
PAGES = [
    b"<html><body>secret</body></html>",
    b"upstream connect error",
    b'{"error": {"message": "cut',
    b"",
    b"\xff\xfe",
    b"[]",
    b"null",
    b"{}",
    b'{"a":1}',
]


def error_of(failure: Failure) -> Any:
    assert failure.body is not None
    return json.loads(failure.body)["error"]


@pytest.mark.parametrize(("data", "message", "status"), SHAPES)
def test_an_error_is_recognised_with_its_words_and_its_status(data: str, message: str, status: int) -> None:
    failure = reported_in(data.encode())
    assert failure is not None
    assert (failure.code, failure.message, failure.http_status) == ("upstream_error", message, status)
    assert error_of(failure)["message"] == message


@pytest.mark.parametrize("data", NONE)
def test_what_is_none_of_the_shapes_is_no_error(data: str) -> None:
    assert reported_in(data.encode()) is None


def test_members_that_are_not_ours_keep_their_bytes() -> None:
    failure = reported(jsontext.members(b'{"object":"error","message":"m","code":404,"n":1.50,"m":{"x":1e5}}'))
    assert failure is not None
    assert failure.body is not None
    assert b'"n":1.50,"m":{"x":1e5}' in failure.body
    own = b'{"error":{"message":"x","n":1.50},"extra":[0.10]}'
    kept = reported(jsontext.members(own))
    assert kept is not None
    assert kept.body == own


@pytest.mark.parametrize(("data", "message", "status"), SHAPES[:-1])
def test_the_first_event_of_a_chat_stream_may_be_an_error_of_any_shape(data: str, message: str, status: int) -> None:
    dialect = Chat()
    assert dialect.read(event(data)) == []
    assert dialect.failure is not None
    assert (dialect.failure.message, dialect.failure.http_status) == (message, status)


@pytest.mark.parametrize(("data", "said"), [("boom", "boom"), ('{"message":"boom"}', "boom")])
def test_an_event_named_error_is_one_also_in_plain_words(data: str, said: str) -> None:
    dialect = Chat()
    dialect.read(event(ROLE))
    assert dialect.read(event(data, b"error")) == []
    assert dialect.failure is not None
    assert dialect.failure.message == said


def test_words_without_that_name_stay_noise() -> None:
    dialect = Chat()
    assert dialect.read(event("boom")) == []
    assert (dialect.failure, dialect.noise) == (None, 1)


# The body of a refusal, told in a stream that has begun


@pytest.mark.parametrize(("data", "message", "status"), SHAPES)
def test_a_refusal_has_the_words_of_its_body_and_its_own_status(data: str, message: str, status: int) -> None:
    failure = refused(418, data.encode())
    assert (failure.message, failure.http_status) == (message, 418)


def test_a_refusal_in_a_json_string_is_told() -> None:
    assert refused(500, b'"slow down"').message == "slow down"


@pytest.mark.parametrize("body", PAGES)
def test_of_a_body_that_says_nothing_nothing_is_quoted(body: bytes) -> None:
    assert refused(503, body) == Failure("upstream_error", "The upstream answered 503.", 503)


def test_a_body_that_is_too_large_is_not_taken_into_the_stream() -> None:
    body = b'{"error":{"message":"' + b"x" * REFUSAL_BYTES + b'"}}'
    assert refused(500, body).body is None


@pytest.mark.parametrize(("data", "message", "status"), SHAPES)
def test_each_dialect_tells_it_in_its_own_shape(data: str, message: str, status: int) -> None:
    failure = refused(404, data.encode())
    chat = json.loads(Chat().fail(failure).data.removeprefix(b"data: "))
    assert chat["error"]["message"] == message
    messages = Messages().fail(failure).data
    assert messages.startswith(b"event: error\ndata: ")
    told = json.loads(messages.partition(b"data: ")[2])
    assert (told["type"], told["error"]["type"], told["error"]["message"]) == ("error", "not_found_error", message)
    responses = json.loads(Responses().fail(failure).data.partition(b"data: ")[2])
    assert (responses["type"], responses["message"]) == ("error", message)
    assert isinstance(responses["code"], str)


@pytest.mark.parametrize("dialect", [Chat, Messages, Responses])
@pytest.mark.parametrize(("data", "message", "status"), SHAPES)
def test_an_error_where_a_stream_was_asked_for_is_that_error(dialect: type[Dialect], data: str, message: str, status: int) -> None:
    made = dialect.as_stream(b"application/json", data.encode())
    assert isinstance(made, Failure)
    assert (made.code, made.message, made.http_status) == ("upstream_error", message, status)


@pytest.mark.parametrize("dialect", [Chat, Messages, Responses])
@pytest.mark.parametrize(("data", "message", "status"), SHAPES[:-1])
def test_an_error_in_a_stream_where_one_answer_was_asked_for_is_that_error(
    dialect: type[Dialect], data: str, message: str, status: int
) -> None:
    made = dialect.gathered([event(data)])
    assert isinstance(made, Failure)
    assert (made.code, made.message, made.http_status) == ("upstream_error", message, status)


def test_anthropics_own_error_keeps_its_bytes() -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded","n":1.50},"request_id":"r"}'
    failure = refused(529, body)
    assert Messages.error_body(failure) == body
