"""One stream's machine on a virtual clock: how it ends, by its clocks, its proof or its failures."""

from __future__ import annotations

import json

import pytest

from gateway.dialects import Chat, Plain
from gateway.errors import Failure
from gateway.settings import Pacing
from gateway.stream import Phase
from stream.seen import BURST, PARTS, RESET, USAGE_CHUNK, beats, code, datas
from support import sse as strict
from support.chunks import DONE, ROLE, STOP, chunk, collect, words
from support.plays import sse
from support.virtual import FRAME_S, Relay, at_once, body, stream

# Clocks


@pytest.mark.parametrize(
    ("clocks", "arrivals", "at", "reason"),
    [
        ({"first_content": 30}, [], 30.0, "upstream_first_content_timeout"),
        ({"first_content": 30}, [(5.0, sse([ROLE])), (29.0, b": still here\n\n")], 30.0, "upstream_first_content_timeout"),
        ({"silence": 20, "first_content": None}, [], 20.0, "upstream_silent"),
        ({"silence": 20, "first_content": None}, [(5.0, b"data: {")], 25.0, "upstream_silent"),
        ({"silence": 20, "first_content": None}, [(5.0, b": still here\n\n"), (15.0, sse([ROLE]))], 20.0, "upstream_silent"),
        ({"total": 40}, [(at, sse([ROLE])) for at in range(1, 60)], 40.0, "upstream_total_timeout"),
    ],
)
def test_clock_ends_a_stream_before_its_content(
    clocks: dict[str, float | None], arrivals: list[tuple[float, bytes]], at: float, reason: str
) -> None:
    relay = Relay(stream(every=100.0, clocks=clocks))
    relay.play(arrivals)
    assert relay.refused
    assert (relay.now, relay.stream.reason) == (at, reason)
    assert relay.sent == []
    assert not relay.stream.wants_upstream


@pytest.mark.parametrize(
    ("clocks", "more", "at", "reason"),
    [
        ({"silence": 20}, [], 20.0, "upstream_silent"),
        ({"silence": 20, "first_content": 5}, [(10.0, sse([chunk("b")]))], 30.0, "upstream_silent"),
        ({"silence": 20}, [(15.0, b"data: {"), (30.0, b'"a"'), (45.0, b":")], 65.0, "upstream_silent"),
        ({"total": 40}, [(at, sse([chunk("b")])) for at in range(1, 60)], 40.0, "upstream_total_timeout"),
    ],
)
def test_clock_ends_a_stream_after_its_content_with_an_error_event(
    clocks: dict[str, float], more: list[tuple[float, bytes]], at: float, reason: str
) -> None:
    relay = Relay(stream(every=100.0, clocks=clocks))
    relay.play([(0.0, sse([ROLE, chunk("a")])), *more])
    assert relay.stream.phase is Phase.ENDED
    assert (relay.stream.reason, code(relay)) == (reason, reason)
    assert at <= relay.now < at + 1.0
    assert collect(datas(relay)).done == 0


def test_clocks_that_are_off_never_end_a_stream() -> None:
    relay = Relay(stream(every=3600.0, clocks={"first_content": None, "silence": None, "total": None}))
    relay.play([(1e6, sse([ROLE, chunk("a")])), (2e6, sse([STOP, DONE]))])
    assert relay.stream.reason == "whole"


def test_a_failure_is_told_in_the_stream_once_a_heartbeat_has_begun_it() -> None:
    relay = Relay(stream(every=15.0, clocks={"first_content": 40}))
    relay.play([(1.0, sse([ROLE]))])
    assert not relay.refused
    assert beats(relay) == [15.0, 30.0]
    assert code(relay) == "upstream_first_content_timeout"
    assert len(datas(relay)) == 1  # no role chunk for an answer that never came


@PARTS
def test_after_the_proof_the_closing_line_is_not_waited_for_long(raw: bool) -> None:
    relay = Relay(stream(raw=raw, clocks={"closing": 2.0}))
    relay.play([(0.0, sse([ROLE, chunk("a")])), (5.0, sse([STOP]))])
    assert relay.stream.reason == "whole"
    assert relay.now == pytest.approx(7.0)
    assert datas(relay) == words("a")


def test_usage_after_the_proof_is_waited_for_and_kept() -> None:
    relay = Relay(stream(clocks={"closing": 2.0}))
    relay.play([(0.0, sse([ROLE, chunk("a"), STOP])), (1.9, sse([USAGE_CHUNK]))])
    assert datas(relay) == [ROLE, chunk("a"), STOP, USAGE_CHUNK, DONE]
    assert relay.now == pytest.approx(3.9)


def test_text_after_a_finish_reason_stops_the_closing_clock() -> None:
    relay = Relay(stream(clocks={"closing": 1.0, "silence": 60}))
    relay.play([(0.0, sse([ROLE, chunk("a"), STOP])), (0.5, sse([chunk("b")])), (30.0, sse([chunk("c"), STOP, DONE]))])
    got = collect(datas(relay))
    assert (got.first.content, got.first.finish_frames, got.done) == ("abc", 1, 1)


# Endings

PROOFS: dict[str, tuple[list[str], bool | Failure, str]] = {
    # what came before the end of the body, how that ended, how the stream is booked
    "finish and [DONE]": (words("a"), True, "whole"),
    "finish, no [DONE]": ([ROLE, chunk("a"), STOP], True, "whole"),
    "[DONE], no finish": ([ROLE, chunk("a"), DONE], True, "whole"),
    "finish, then broken off": ([ROLE, chunk("a"), STOP], RESET, "whole"),
    "[DONE], then broken off": (words("a"), RESET, "whole"),
    "no proof": ([ROLE, chunk("a")], True, "upstream_incomplete"),
    "no proof, broken off": ([ROLE, chunk("a")], RESET, "upstream_reset"),
    "usage is no proof": ([ROLE, chunk("a"), USAGE_CHUNK], True, "upstream_incomplete"),
    "one of two choices": ([ROLE, chunk("a"), chunk("b", index=1), STOP], True, "upstream_incomplete"),
    "both choices": ([ROLE, chunk("a"), chunk("b", index=1), STOP, chunk(finish="length", index=1)], True, "whole"),
    "finish taken back": ([ROLE, chunk("a"), STOP, chunk("b")], True, "upstream_incomplete"),
    "empty finish": ([ROLE, chunk("a", finish="")], True, "upstream_incomplete"),
    "an error event": ([ROLE, chunk("a"), '{"error":{"message":"m","code":"upstream_error"}}'], True, "upstream_error"),
    "broken JSON": ([ROLE, chunk("a"), '{"choices":[{"index":0,"delta":{"content":"b"']  , True, "upstream_bad_event"),
    "words in between": ([ROLE, chunk("a"), "<html>gateway timeout</html>"], True, "upstream_incomplete"),
    "no text but a finish": ([ROLE, STOP, DONE], True, "whole"),
    "nothing": ([], True, "upstream_empty"),
    "a role alone": ([ROLE], True, "upstream_empty"),
    "[DONE] alone": ([DONE], True, "upstream_empty"),
    "a role and [DONE]": ([ROLE, DONE], True, "upstream_empty"),
    "nothing, broken off": ([ROLE], RESET, "upstream_reset"),
    "an error first": (['{"error":{"message":"m"}}', DONE], True, "upstream_error"),
}  # fmt: skip


@PARTS
@pytest.mark.parametrize(("came", "end", "reason"), PROOFS.values(), ids=PROOFS.keys())
def test_stream_is_whole_only_with_proof(came: list[str], end: bool | Failure, reason: str, raw: bool) -> None:
    relay = Relay(stream(Chat(2 if any('"index":1' in data for data in came) else 1), raw=raw))
    relay.play(at_once(*came), end=end)
    assert relay.stream.reason == reason
    got = collect(datas(relay))
    assert got.done == (reason == "whole")
    assert relay.refused == (not any("a" in choice.content for choice in collect(_readable(came)).choices.values()) and reason != "whole")
    assert len(got.errors) == (reason != "whole" and not relay.refused)
    if got.errors:
        assert code(relay) == reason
        assert got.first.content == "ab" if "taken back" in str(came) else got.first.content.startswith("a")


def _readable(came: list[str]) -> list[str]:
    return [data for data in came if data == DONE or data.endswith("}")]


@PARTS
def test_done_alone_is_a_failure_at_once_even_if_the_connection_stays_open(raw: bool) -> None:
    relay = Relay(stream(raw=raw))
    relay.play(at_once(ROLE, DONE))
    assert relay.refused
    assert (relay.now, relay.stream.reason) == (0.0, "upstream_empty")


@PARTS
def test_text_before_a_failure_is_delivered_first_and_nothing_follows_it(raw: bool) -> None:
    relay = Relay(stream(raw=raw))
    relay.play([(0.0, sse([ROLE, *BURST])), (0.1, sse(['{"error":{"message":"m","code":"x"}}', chunk("after"), STOP, DONE]))], end=True)
    said = datas(relay)
    assert said[:-1] == [ROLE, *BURST]
    assert json.loads(said[-1]) == {"error": {"message": "m", "code": "x"}}
    assert relay.stream.phase is Phase.ENDED
    assert relay.now <= 0.1 + Pacing().end + FRAME_S


@PARTS
def test_event_cut_by_a_failure_is_not_sent(raw: bool) -> None:
    relay = Relay(stream(raw=raw))
    relay.play([(0.0, sse([ROLE, chunk("a")]) + b'data: {"choices":[{"index":0,"delta":{"content":"half')], end=RESET)
    got = collect(datas(relay))
    assert (got.first.content, len(got.errors)) == ("a", 1)
    assert b"half" not in body(relay.sent)


def test_whole_event_that_a_failure_left_without_its_blank_line_is_used() -> None:
    relay = Relay(stream())
    relay.play([(0.0, sse([ROLE, chunk("a")]) + b"data: " + chunk("b").encode())], end=RESET)
    assert collect(datas(relay)).first.content == "ab"


def test_an_event_above_the_limit_ends_the_stream() -> None:
    relay = Relay(stream(event_bytes=1000))
    relay.play([(0.0, sse([ROLE, chunk("a")])), *[(0.1 * at, b"data: " + b"x" * 400) for at in range(1, 9)]])
    assert (relay.stream.reason, code(relay)) == ("upstream_event_too_large", "upstream_event_too_large")
    assert relay.now < 2.0


def test_a_failure_from_outside_is_told_like_any_other() -> None:
    machine = stream()
    machine.receive(0.0, sse([ROLE, *BURST]))
    first = machine.due(0.0)
    machine.fail(0.0, Failure("shutting_down", "Ask again."))
    out, at = first, 0.0
    while machine.phase is not Phase.ENDED:
        at += FRAME_S
        out += machine.due(at)
    said = [event.data for event in strict.read(out)[0]]
    assert said[:-1] == [ROLE, *BURST]
    assert json.loads(said[-1])["error"]["code"] == "shutting_down"


def test_a_second_failure_does_not_replace_the_first() -> None:
    machine = stream()
    machine.receive(0.0, sse([ROLE, chunk("a")]))
    machine.fail(0.0, RESET)
    machine.fail(0.0, Failure("shutting_down", "Ask again."))
    assert machine.reason == "upstream_reset"


def test_telling_does_nothing_where_there_is_nothing_to_tell() -> None:
    machine = stream()
    machine.tell(0.0)
    assert machine.phase is Phase.HOLDING


# Unknown protocols


def test_events_of_an_unknown_protocol_end_properly_with_their_body() -> None:
    relay = Relay(stream(Plain(), raw=True))
    relay.play([(0.0, b"event: x\ndata: 1\n\n"), (5.0, b'data: [DONE]\n\ndata: {"n":2}')], end=True)
    assert body(relay.sent) == b'event: x\ndata: 1\n\ndata: [DONE]\n\ndata: {"n":2}\n\n'
    assert relay.stream.reason == "whole"


def test_events_of_an_unknown_protocol_that_break_off_end_with_an_error() -> None:
    relay = Relay(stream(Plain(), raw=True))
    relay.play([(0.0, b"event: x\ndata: 1\n\n")], end=RESET)
    assert (relay.stream.reason, code(relay)) == ("upstream_reset", "upstream_reset")
