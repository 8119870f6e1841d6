"""Signs of an end, or of life, that are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects import Chat, Messages, Responses
from gateway.dialects.base import Dialect
from gateway.pacing.unpaced import Unpaced
from gateway.settings import Clocks
from gateway.stream import Phase, Stream

HEAD = b'{"id":"a","object":"chat.completion.chunk","choices":[{"index":0,"delta":'


USAGE = b'data: {"id":"a","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'


def event(delta: bytes, finish: bytes = b"null") -> bytes:
    return b"data: " + HEAD + delta + b',"finish_reason":' + finish + b"}]}\n\n"


def stream(dialect: Dialect, clocks: Clocks | None = None, event_bytes: int = 2**20) -> Stream:
    made = clocks or Clocks()
    return Stream(0.0, dialect, Unpaced(), made, heartbeat_every=15, heartbeat_style="comment", event_bytes=event_bytes)


def test_a_finish_reason_on_each_chunk_closes_nothing_however_long_the_pauses_once_text_has_contradicted_it() -> None:
    answer = stream(Chat())
    out = b""
    for at, word in ((0.0, b"one "), (2.5, b"two "), (60.0, b"three")):
        out += answer.tick(at - 0.1)
        answer.receive(at, event(b'{"content":"' + word + b'"}', b'"stop"'))
        out += answer.due(at)
    answer.receive(90.0, b"data: [DONE]\n\n")
    out += answer.due(90.0)
    assert out.count(b'"finish_reason":"stop"') == 1
    assert [word in out for word in (b"one ", b"two ", b"three")] == [True] * 3
    assert out.index(b"three") < out.index(b'"finish_reason":"stop"')
    assert answer.failure is None


@pytest.mark.parametrize(
    ("came", "closes_at"),
    [
        ([event(b'{"role":"assistant","content":"all"}', b'"stop"')], 3.0),
        ([event(b'{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}', b'"tool_calls"')], 1.0),
        ([event(b'{"role":"assistant","content":""}'), event(b"{}", b'"stop"')], 3.0),
        ([event(b'{"role":"assistant","content":""}', b'"content_filter"')], 1.0),
        ([event(b'{"role":"assistant","content":""}', b'"stop"'), USAGE], 1.0),
        ([event(b'{"role":"assistant","content":"all"}', b'"stop"'), USAGE], 1.0),
    ],
    ids=["all in one chunk", "a call in one chunk", "no text at all", "filtered", "counted", "all in one chunk, and counted"],
)
def test_an_answer_whose_connection_is_held_is_closed_as_soon_as_its_finish_can_be_believed(came: list[bytes], closes_at: float) -> None:
    answer = stream(Chat())
    answer.receive(0.0, b"".join(came))
    out = answer.due(0.0)
    assert answer.wakeup() == closes_at
    out += answer.tick(closes_at) + answer.due(closes_at)
    assert answer.failure is None
    assert answer.phase is Phase.ENDED
    assert out.count(b'"finish_reason":null') == out.count(b'"finish_reason":') - 1
    assert out.endswith(b"data: [DONE]\n\n")


def test_a_finish_reason_that_text_followed_is_told_at_the_end_if_no_other_came() -> None:
    answer = stream(Chat())
    answer.receive(0.0, event(b'{"content":"a"}') + event(b"{}", b'"length"') + event(b'{"content":"b"}') + b"data: [DONE]\n\n")
    out = answer.due(0.0)
    assert out.index(b'"content":"b"') < out.index(b'"finish_reason":"length"')
    assert answer.failure is None


def test_text_after_a_finish_reason_needs_a_proof_of_its_own() -> None:
    answer = stream(Chat())
    answer.receive(0.0, event(b'{"content":"a"}') + event(b"{}", b'"stop"') + event(b'{"content":"b"}'))
    answer.upstream_ended(0.1, None)
    assert answer.failure is not None
    assert b'"finish_reason":"stop"' not in answer.due(0.1)


COMPLETED = b'event: response.completed\ndata: {"type":"response.completed","sequence_number":0,"response":{"id":"r","output":[]}}'


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r"])
def test_an_event_that_lacks_only_its_blank_line_is_read_when_nothing_follows(end: bytes) -> None:
    answer = stream(Responses())
    answer.receive(0.0, COMPLETED + end)
    assert answer.due(0.0) == b""
    assert answer.closes_soon
    assert answer.wakeup() == 1.0
    assert answer.tick(1.0) + answer.due(1.0) == COMPLETED + b"\n\n"
    assert answer.failure is None
    assert answer.phase is Phase.ENDED


def test_an_event_that_is_not_whole_is_waited_for() -> None:
    answer = stream(Chat())
    whole = event(b'{"content":"x"}')
    cut = whole.index(b"}") + 1
    answer.receive(0.0, whole[:cut])
    assert answer.tick(1.0) + answer.due(1.0) == b""
    answer.receive(9.0, whole[cut:])
    assert answer.due(9.0) == whole


def test_the_blank_line_of_an_event_that_was_read_without_it_says_nothing() -> None:
    answer = stream(Chat())
    whole = event(b'{"role":"assistant"}') + event(b'{"content":"x"}')
    answer.receive(0.0, whole[:-2])
    answer.tick(1.0)
    out = answer.due(1.0)
    answer.receive(5.0, b"\n\n" + event(b'{"content":"y"}'))
    assert out + answer.due(5.0) == whole + event(b'{"content":"y"}')


def test_a_finish_reason_on_the_role_chunk_leaves_room_for_late_text() -> None:
    answer = stream(Chat())
    answer.receive(0.0, event(b'{"role":"assistant","content":""}', b'"stop"'))
    out = answer.due(0.0) + answer.tick(1.5)
    answer.receive(9.0, event(b'{"content":"late"}') + event(b"{}", b'"stop"') + b"data: [DONE]\n\n")
    out += answer.due(9.0)
    assert b"late" in out
    assert out.endswith(b"data: [DONE]\n\n")


def test_an_answer_that_finishes_without_text_is_whole_at_the_end_of_the_body() -> None:
    answer = stream(Chat())
    answer.receive(0.0, event(b'{"role":"assistant","content":""}') + event(b"{}", b'"content_filter"'))
    answer.upstream_ended(0.1, None)
    out = answer.due(0.1)
    assert b'"content_filter"' in out
    assert answer.failure is None
    assert answer.phase is Phase.ENDED


def test_a_finish_after_text_closes_the_stream_although_the_connection_is_held() -> None:
    answer = stream(Chat())
    answer.receive(0.0, event(b'{"role":"assistant"}') + event(b'{"content":"x"}') + event(b"{}", b'"stop"'))
    out = answer.due(0.0)
    assert answer.wakeup() == 1.0
    out += answer.tick(1.0) + answer.due(1.0)
    assert out.endswith(b"data: [DONE]\n\n")


def test_events_that_say_nothing_are_no_sign_of_an_answer() -> None:
    clocks = replace(Clocks(), silence=3.0, first_content=None)
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    keepalive = b'event: keepalive\ndata: {"type":"keepalive","sequence_number":%d}\n\n'
    for dialect, idle in ((Messages(), ping), (Responses(), keepalive % 1), (Chat(), event(b"{}"))):
        answer = stream(dialect, clocks)
        for at in range(1, 5):
            answer.receive(float(at), idle)
            answer.tick(float(at))
        assert answer.failure is not None
        assert answer.failure.code == "upstream_silent"


def test_a_large_preamble_is_not_counted_as_held_and_leaves_at_its_own_bound() -> None:
    answer = stream(Responses(), event_bytes=10_000)
    created = b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"instructions":"%b"}}\n\n'
    answer.receive(0.0, created % (b"x" * 6000))
    assert answer.held_bytes == 0
    assert answer.phase is Phase.HOLDING
    answer.receive(0.1, created % (b"y" * 6000))
    assert answer.phase is Phase.OPEN
    assert len(answer.due(0.1)) > 12_000


def test_line_ends_beyond_the_blank_line_are_nothing() -> None:
    for extra in (b"\n", b"\n\n", b"\n\n\n"):
        answer = stream(Chat())
        answer.receive(0.0, event(b'{"content":"a"}') + extra)
        answer.receive(0.0, event(b'{"content":"b"}') + extra)
        assert answer.due(0.0) == event(b'{"content":"a"}') + event(b'{"content":"b"}')
