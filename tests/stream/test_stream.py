"""One stream's machine on a virtual clock: what leaves, and when."""

from __future__ import annotations

import json

import pytest

from gateway.piece import Kind
from gateway.settings import Pacing
from gateway.stream import Phase
from stream.seen import BURST, PARTS, RESET, USAGE_CHUNK, beats, datas
from support import sse as strict
from support.chunks import DONE, ROLE, STOP, chunk, collect, words
from support.plays import sse
from support.virtual import FRAME_S, Relay, at_once, body, spread, stream

# Phases


@PARTS
def test_nothing_leaves_before_the_first_content_and_then_all_of_it_in_one_frame(raw: bool) -> None:
    relay = Relay(stream(raw=raw))
    relay.stream.receive(0.0, sse([ROLE]))
    relay.stream.receive(0.5, sse([chunk("")]))
    relay.run_until(0.9)
    assert relay.stream.phase is Phase.HOLDING
    assert relay.sent == []
    relay = Relay(stream(raw=raw))
    relay.play([(0.0, sse([ROLE])), (1.0, sse([chunk("Hi")])), (1.0, sse([STOP, DONE]))])
    assert relay.sent[0] == (1.0, sse([ROLE, chunk("Hi")]))
    assert relay.stream.first_content_at == relay.stream.first_sent_at == 1.0


@PARTS
def test_a_whole_stream_passes_every_phase(raw: bool) -> None:
    relay = Relay(stream(raw=raw))
    relay.play(at_once(*words(*["word "] * 60)))
    assert relay.stream.phase is Phase.ENDED
    assert relay.stream.reason == "whole"
    assert not relay.stream.wants_upstream
    assert datas(relay) == words(*["word "] * 60)


def test_closing_lasts_until_the_last_piece_is_out() -> None:
    relay = Relay(stream())
    relay.stream.receive(0.0, sse(words(*["word "] * 60)))
    assert relay.stream.due(0.0)
    assert relay.stream.phase is Phase.CLOSING
    assert relay.stream.pacing
    at = 0.0
    while relay.stream.phase is not Phase.ENDED:
        at += FRAME_S
        relay.stream.due(at)
    assert at <= Pacing().end
    assert not relay.stream.pacing
    assert relay.stream.due(at + 1) == b""


def test_what_came_and_what_left_are_both_measured() -> None:
    relay = Relay(stream())
    relay.play(at_once(ROLE, *BURST, STOP, DONE))
    assert relay.stream.arrived.clusters[Kind.CONTENT] == 1
    assert relay.stream.delivered.clusters[Kind.CONTENT] == 0
    assert relay.stream.arrived.tokens == pytest.approx(relay.stream.delivered.tokens)


def test_nothing_is_read_after_the_end() -> None:
    relay = Relay(stream(raw=True))
    relay.play(at_once(*words("a")))
    relay.stream.receive(1.0, sse([chunk("b")]))
    relay.stream.upstream_ended(1.0, RESET)
    relay.stream.fail(1.0, RESET)
    assert relay.stream.due(1.0) == relay.stream.tick(100.0) == b""
    assert relay.stream.reason == "whole"
    assert relay.stream.wakeup() == float("inf")


# Heartbeats


def test_heartbeats_come_before_the_first_content_and_are_counted() -> None:
    relay = Relay(stream(every=15.0))
    relay.play([(50.0, sse(words("late")))])
    assert beats(relay) == [15.0, 30.0, 45.0]
    assert (relay.stream.heartbeats, relay.stream.heartbeats_before) == (3, 3)
    assert datas(relay) == words("late")


def test_heartbeats_fill_silences_in_midstream_and_nothing_else() -> None:
    relay = Relay(stream(every=15.0))
    relay.play([(0.0, sse([ROLE, chunk("a")])), (10.0, sse([chunk("b")])), (45.0, sse([chunk("c")])), (46.0, sse([STOP, DONE]))])
    assert beats(relay) == [25.0, 40.0]
    assert (relay.stream.heartbeats, relay.stream.heartbeats_before) == (2, 0)


@PARTS
def test_heartbeat_never_stands_inside_an_event(raw: bool) -> None:
    text = sse([ROLE, chunk("drip"), STOP, DONE])
    relay = Relay(stream(raw=raw, every=1.0))
    relay.play([(index * 0.4, text[index : index + 1]) for index in range(len(text))], end=True)
    assert len(beats(relay)) > 50
    assert datas(relay) == [ROLE, chunk("drip"), STOP, DONE]
    for _, frame in relay.sent:
        assert frame.endswith(b"\n\n")


def test_upstream_comments_neither_pass_nor_count_as_life() -> None:
    relay = Relay(stream(every=15.0))
    relay.play([*[(at, b": PROCESSING\n\n") for at in range(1, 40)], (40.0, sse(words("a")))])
    assert beats(relay) == [15.0, 30.0]
    assert b"PROCESSING" not in body(relay.sent)


def test_heartbeats_go_on_while_held_tokens_leave_only_if_none_do() -> None:
    relay = Relay(stream(every=0.2))
    relay.play(at_once(ROLE, *BURST, STOP, DONE))
    assert not beats(relay)


@pytest.mark.parametrize("style", ["chunk", "comment", "native"])
def test_heartbeats_have_the_style_that_was_chosen(style: str) -> None:
    relay = Relay(stream(every=1.0, style=style))
    relay.play([(0.0, sse([ROLE, chunk("a")])), (2.5, sse([STOP, DONE]))])
    between = [data for at, data in relay.sent if 0.0 < at < 2.5]
    assert len(between) == 2
    if style == "chunk":
        assert all(json.loads(data[6:])["choices"][0]["delta"] == {} for data in between)
    else:
        assert between == [b": keepalive\n\n"] * 2
    assert collect(datas(relay)).first.content == "a"


def test_no_heartbeat_comes_after_a_failure_that_the_caller_is_to_answer() -> None:
    machine = stream(every=1.0)
    machine.fail(0.0, RESET)
    assert machine.tick(5.0) == b""
    assert machine.phase is Phase.HOLDING


# A client that does not read


def peak(relay: Relay, start: float) -> float:
    """The most tokens in three frames (60 ms) from `start` on, by the text of the frames."""
    frames = [(at, len(collect(_data_of(data)).first.content) / 4) for at, data in relay.sent if at >= start and b"data:" in data]
    return max(sum(tokens for at, tokens in frames if begin <= at < begin + 0.0595) for begin, _ in frames)


def _data_of(frame: bytes) -> list[str]:
    return [event.data for event in strict.read(frame)[0]]


@pytest.mark.parametrize("blocked_s", [0.3, 2.0, 60.0])
def test_what_a_blocked_client_missed_is_not_caught_up_in_a_burst(blocked_s: float) -> None:
    relay = Relay(stream())
    relay.play([(0.0, sse([ROLE, chunk("first ")]))], until=0.0)
    relay.blocked = True
    relay.play([(0.001 * at, sse([chunk("word ")])) for at in range(100)], until=blocked_s)  # 125 tokens
    assert len(relay.sent) == 1
    relay.unblock(blocked_s)
    relay.play([(blocked_s + 0.001, sse([chunk("last ")]))], until=blocked_s + 5.0)
    assert peak(relay, blocked_s) <= Pacing().ceiling_tokens + 1
    relay.play([(blocked_s + 5.0, sse([STOP, DONE]))])
    assert collect(datas(relay)).first.content == "first " + "word " * 100 + "last "


def test_no_heartbeat_is_due_at_once_after_a_client_was_blocked() -> None:
    machine = stream(every=15.0)
    machine.receive(0.0, sse([ROLE, chunk("a")]))
    machine.due(0.0)
    machine.waited_for_client(100.0)
    assert machine.tick(100.0) == b""
    assert machine.wakeup() == 115.0


def test_what_is_held_is_counted_in_bytes() -> None:
    machine = stream()
    machine.receive(0.0, sse([ROLE, *BURST]))
    held = machine.held_bytes
    assert held >= len(sse(BURST))
    machine.due(0.0)
    assert machine.held_bytes < held


@PARTS
def test_first_token_leaves_in_the_turn_in_which_it_came(raw: bool) -> None:
    machine = stream(raw=raw)
    machine.receive(3.0, sse([ROLE, chunk("word ")]))
    assert b"word" in machine.due(3.0)
    assert machine.first_sent_at == 3.0


@PARTS
def test_events_keep_their_places(raw: bool) -> None:
    """What is no text leaves behind the text that came before it."""
    came = [
        ROLE,
        *BURST[:20],
        chunk(annotations=[1]),
        *BURST[:20],
        chunk(top={"choices": [], "x": {}}),
        *BURST[:5],
        STOP,
        USAGE_CHUNK,
        DONE,
    ]
    relay = Relay(stream(raw=raw))
    relay.play(spread(came, 0.001))
    assert datas(relay) == came
