"""Chat completions: what proves that an answer is whole, what is an error in it, and what is noise."""

from __future__ import annotations

import json

import pytest

from dialects.reading import event, meaning, objects, pieces, said
from gateway.dialects import Chat, Completions
from support.chunks import DONE, ROLE, STOP, USAGE, call, chunk

USAGE_CHUNK = chunk(top={"choices": [], "usage": USAGE})
LONG = "word " * 40


def test_a_finish_reason_for_each_choice_is_the_proof() -> None:
    dialect = Chat(2)
    for data, proven in [
        (ROLE, False),
        (chunk("a"), False),
        (chunk("b", index=1), False),
        (STOP, False),
        (chunk(finish="stop", index=1), True),
    ]:
        dialect.read(event(data))
        assert dialect.proven == proven
        assert not dialect.ended


def test_done_is_the_proof_too_and_ends_the_stream() -> None:
    dialect = Chat()
    found = pieces(ROLE, chunk("a"), DONE, chunk("b"), DONE, dialect=dialect)
    assert (dialect.proven, dialect.ended) == (True, True)
    assert said(found) == [ROLE, chunk("a"), DONE]


@pytest.mark.parametrize("data", [ROLE, chunk(""), chunk(None), chunk(top={"choices": [], "prompt_filter_results": []}), USAGE_CHUNK])
def test_what_opens_a_stream_is_no_content_yet(data: str) -> None:
    dialect = Chat()
    dialect.read(event(data))
    assert not dialect.committed


@pytest.mark.parametrize(
    "data",
    [
        chunk("a"),
        chunk(" "),
        chunk(reasoning="a"),
        chunk(refusal="a"),
        chunk(tool_calls=[call(0, "i", "n", "")]),
        chunk(function_call={"name": "n", "arguments": ""}),
        chunk(audio={"id": "a"}),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "x"}]),
        chunk([{"type": "text", "text": "a"}]),
        STOP,
    ],
)
def test_what_is_said_commits(data: str) -> None:
    dialect = Chat()
    dialect.read(event(data))
    assert dialect.committed


def test_an_answer_without_text_is_whole_and_keeps_its_order() -> None:
    datas = [ROLE, chunk(finish="content_filter"), USAGE_CHUNK, DONE]
    dialect = Chat()
    assert [json.loads(data) if data != DONE else data for data in said(pieces(*datas, dialect=dialect))] == [
        json.loads(data) if data != DONE else data for data in datas
    ]
    assert dialect.proven


def test_a_finish_reason_with_the_first_text_waits_for_the_end() -> None:
    datas = [chunk("a", role="assistant", finish="stop"), chunk("b"), chunk("c", finish="stop"), USAGE_CHUNK, DONE]
    got = meaning(*datas)
    assert (got.first.content, got.first.finish, got.first.finish_frames, got.done) == ("abc", "stop", 1, 1)
    assert got.order == [(0, "content"), (0, "finish")]
    assert got.usages == [USAGE]


def test_a_finish_reason_in_each_chunk_is_sent_once_and_last() -> None:
    got = meaning(*(chunk(text, finish="stop") for text in "abcd"), DONE)
    assert (got.first.content, got.first.finish_frames) == ("abcd", 1)
    assert got.order == [(0, "content"), (0, "finish")]


def test_a_finish_reason_that_comes_twice_is_sent_once() -> None:
    got = meaning(ROLE, chunk("a"), STOP, chunk(finish="length"), USAGE_CHUNK, DONE)
    assert (got.first.finish, got.first.finish_frames) == ("stop", 1)


def test_text_after_a_lone_finish_reason_takes_it_back() -> None:
    dialect = Chat()
    pieces(ROLE, chunk("a"), STOP, dialect=dialect)
    assert dialect.proven
    found = pieces(chunk("b"), dialect=dialect)
    assert not dialect.proven
    assert [each["choices"][0]["finish_reason"] for each in objects(found)] == [None, None]
    got = meaning(STOP, DONE, dialect=dialect)
    assert (got.first.finish, got.first.finish_frames) == ("stop", 1)


def test_a_finish_reason_with_the_last_text_leaves_at_once() -> None:
    assert said(pieces(ROLE, chunk("a"), chunk("b", finish="stop"))) == [ROLE, chunk("a"), chunk("b", finish="stop")]


def test_what_belongs_to_the_end_is_said_once_when_a_finish_reason_is_taken_apart() -> None:
    logprobs = {"content": [{"token": "ab", "logprob": -1.0}]}
    extra = {"logprobs": logprobs, "content_filter_results": {"x": 1}, "native_finish_reason": "end"}
    data = chunk("ab", role="assistant", finish="stop", choice=extra, top={"usage": USAGE, "x_groq": {"a": 1}, "obfuscation": "zz"})
    text, closing = objects(pieces(data, DONE))
    assert text["choices"][0] == {"index": 0, "delta": {"content": "ab", "role": "assistant"}, "logprobs": logprobs, "finish_reason": None}
    assert "usage" not in text
    assert "x_groq" not in text
    assert closing["choices"][0]["delta"] == {}
    assert closing["choices"][0]["finish_reason"] == "stop"
    assert closing["choices"][0]["native_finish_reason"] == "end"
    assert "logprobs" not in closing["choices"][0]
    assert closing["usage"] == USAGE


# Errors and noise


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ('{"error":{"message":"quota","type":"insufficient_quota","code":"insufficient_quota"}}', 429),
        ('{"error":{"message":"slow down","code":429}}', 429),
        ('{"error":{"message":"x","type":"server_error","code":"503"}}', 503),
        ('{"error":{"message":"x","type":"overloaded_error"}}', 503),
        ('{"error":{"message":"x","code":"context_length_exceeded"}}', 400),
        ('{"error":{"message":"x","type":"invalid_request_error","code":"invalid_api_key"}}', 401),
        ('{"error":{"message":"x"},"choices":[]}', 502),
        ('{"error":"plain words"}', 502),
        ('{"object":"error","message":"vLLM","type":"BadRequestError","code":400}', 400),
        ('{"message":"gone","code":404}', 404),
    ],
)
def test_an_error_in_the_stream_is_a_failure_with_the_status_it_would_have_had(data: str, status: int) -> None:
    dialect = Chat()
    assert pieces(data, dialect=dialect) == []
    assert dialect.failure is not None
    assert (dialect.failure.code, dialect.failure.http_status) == ("upstream_error", status)
    told = json.loads(said([dialect.fail(dialect.failure)])[0])
    assert {"message"} <= told["error"].keys()


def test_an_error_of_the_right_shape_is_told_in_its_own_bytes() -> None:
    data = '{"error":{"message":"x","type":"server_error","param":null,"code":null,"metadata":{"n":1.50}}}'
    dialect = Chat()
    pieces(data, dialect=dialect)
    assert dialect.failure is not None
    assert said([dialect.fail(dialect.failure)]) == [data]


@pytest.mark.parametrize("data", [chunk("a", top={"error": {}}), chunk("a", top={"error": ""}), chunk("message", top={"code": 1})])
def test_what_only_looks_like_an_error_is_none(data: str) -> None:
    dialect = Chat()
    pieces(data, dialect=dialect)
    assert dialect.failure is None


@pytest.mark.parametrize("data", [b"<html>", b": processing", b"keep-alive", b"ping", b"\xff"])
def test_words_that_are_no_json_are_dropped(data: bytes) -> None:
    dialect = Chat()
    assert pieces(data, dialect=dialect) == []
    assert dialect.failure is None
    assert dialect.noise == 1


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices":[{"index":0,"delta":{"content":"a',
        b'{"choices":[{"delta":{"content":"\xff"}}]}',
        b'{"choices":[1]}',
        b'{"choices":[{"delta":{"a":}}]}',
    ],
)
def test_json_that_lost_its_text_is_a_failure(data: bytes) -> None:
    dialect = Chat()
    assert pieces(ROLE, chunk("a"), data, dialect=dialect)[2:] == []
    assert dialect.failure is not None
    assert dialect.failure.code == "upstream_bad_event"


@pytest.mark.parametrize(
    "data",
    [
        "{}", "[]", "null", "1", '{"choices":null}', '{"choices":{}}', '{"choices":[null]}', '{"choices":[{}]}', '{"choices":[{"delta":1}]}',
        '{"choices":[{"delta":{"content":1}}]}', '{"choices":[{"delta":{"content":{"a":1}}}]}', '{"choices":[{"index":-1,"delta":{"content":"a"}}]}',
        '{"choices":[{"index":"0","delta":{"content":"a"}}]}', '{"choices":[{"delta":{"tool_calls":null}}]}', '{"choices":[{"delta":{"tool_calls":{}}}]}',
        '{"choices":[{"delta":{"tool_calls":[null]}}]}', '{"choices":[{"delta":{"tool_calls":[{"function":null}]}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"function":"x"}]}}]}', '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":7}}]}}]}',
        '{"choices":[{"delta":{"function_call":null}}]}', '{"choices":[{"delta":{"function_call":{"arguments":{}}}}]}',
        '{"choices":[{"delta":{"content":"a"},"logprobs":[]}]}', '{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[1,{}]}}]}',
        '{"choices":[{"delta":{"content":"a"},"logprobs":{"content":{}}}]}', '{"choices":[{"delta":{"content":[1,{"type":"text"},{"text":2}]}}]}',
        '{"choices":[{"delta":{"content":"a"},"finish_reason":1}]}', '{"choices":[],"usage":[]}', '{"choices":[],"usage":{"prompt_tokens":"x"}}',
        '{"model":7,"id":{},"choices":[{"delta":{"content":"a"}}]}', '{"error":7}', '{"error":[]}', '{"message":{},"code":null}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("dialect", [Chat, Completions])
def test_no_shape_however_odd_raises(data: str, dialect: type[Chat] | type[Completions]) -> None:
    reader = dialect()
    found = [*pieces(ROLE, data, data, chunk("b", finish="stop"), data, DONE, dialect=reader), *reader.close()]
    assert all(piece.data for piece in found)
    for piece in found:
        piece.cut(1.0)


def test_names_of_events_do_not_matter() -> None:
    dialect = Chat()
    found = dialect.read(event(chunk("a"), b"message"))
    assert [json.loads(data) for data in said(found)] == [json.loads(chunk("a"))]


# The end of the body


@pytest.mark.parametrize(
    ("data", "used"), [(b"[DONE]", True), (chunk("b").encode(), True), (chunk("b").encode()[:-3], False), (b"", False)]
)
def test_the_last_event_is_used_without_its_blank_line_if_its_data_is_whole(data: bytes, used: bool) -> None:
    dialect = Chat()
    pieces(ROLE, chunk("a"), dialect=dialect)
    assert bool(dialect.read_last(event(data))) == used
    assert dialect.failure is None


def test_closing_says_done_once_and_last() -> None:
    dialect = Chat()
    pieces(ROLE, chunk("a"), STOP, dialect=dialect)
    assert said(dialect.close()) == [STOP, DONE]
