"""Signs of an end, or of life, that are none."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects import Chat, Messages, Responses
from gateway.dialects.base import Dialect
from gateway.pacing.unpaced import Unpaced
from gateway.settings import Clocks
from gateway.stream import Phase, Stream

HEAD = b'{"id":"a","object":"chat.completion.chunk","choices":[{"index":0,"delta":'


def event(delta: bytes, finish: bytes = b"null") -> bytes:
    return b"data: " + HEAD + delta + b',"finish_reason":' + finish + b"}]}\n\n"


def stream(dialect: Dialect, clocks: Clocks | None = None, event_bytes: int = 2**20) -> Stream:
    made = clocks or Clocks()
    return Stream(0.0, dialect, Unpaced(), made, heartbeat_every=15, heartbeat_style="comment", event_bytes=event_bytes)


def test_a_finish_reason_on_each_chunk_closes_nothing_however_long_the_pauses() -> None:
    answer = stream(Chat())
    out = b""
    for at, word in enumerate((b"one ", b"two ", b"three")):
        answer.receive(at * 5.0, event(b'{"content":"' + word + b'"}', b'"stop"'))
        out += answer.due(at * 5.0)
        for step in range(1, 5):
            answer.tick(at * 5.0 + step)
    answer.receive(15.0, b"data: [DONE]\n\n")
    out += answer.due(15.0)
    assert out.count(b'"finish_reason":"stop"') == 1
    assert [word in out for word in (b"one ", b"two ", b"three")] == [True] * 3
    assert out.index(b"three") < out.index(b'"finish_reason":"stop"')
    assert answer.failure is None


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
    clocks = replace(Clocks(), silence=3.0)
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
