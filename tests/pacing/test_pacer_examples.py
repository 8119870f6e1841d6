"""What the pacer does in plain cases, moment by moment."""

from __future__ import annotations

import itertools

import pytest

from gateway.pacing.horizon import Horizon
from gateway.pacing.pacer import Pacer, Unpaced
from gateway.pacing.run import runs
from gateway.piece import Kind, Piece
from gateway.settings import MaxLag, Pacing

from .offline import text_piece

FRAME = 0.020


def word(kind: Kind = Kind.CONTENT) -> Piece:
    return Piece(kind, 1.0, b"word")


def structure() -> Piece:
    return Piece(Kind.STRUCTURE, 0.0, b"{}")


def pushed(pacer: Pacer, now: float, count: int, kind: Kind = Kind.CONTENT) -> None:
    for _ in range(count):
        pacer.push(now, word(kind))


def drained(pacer: Pacer, now: float, until: float = 1e9) -> list[tuple[float, float]]:
    """(time, tokens) of the frames from now on, asked each frame."""
    out = []
    while not pacer.empty and now < until:
        tokens = sum(piece.weight for piece in pacer.due(now))
        if tokens:
            out.append((now, tokens))
        now += FRAME
    return out


def learned(silence_s: float, tokens: float, kind: Kind = Kind.CONTENT) -> Horizon:
    horizon = Horizon()
    for _ in range(8):
        horizon.of(kind).learn(silence_s, silence_s, tokens, 0.0)
    return horizon


def test_a_steady_token_leaves_in_the_due_after_its_push() -> None:
    pacer = Pacer(Pacing())
    for i in range(200):
        piece = word()
        pacer.push(i * 0.02, piece)
        assert pacer.due(i * 0.02) == [piece]
        assert pacer.empty


def test_of_a_huge_first_burst_only_a_small_frame_leaves_at_once() -> None:
    pacer = Pacer(Pacing())
    pacer.push(1.0, text_piece(" word" * 400, Kind.CONTENT))
    frame = pacer.due(1.0)
    assert 0.5 < sum(piece.weight for piece in frame) < 3.0


def test_structure_does_not_spend_the_first_tokens_right_to_leave_at_once() -> None:
    pacer = Pacer(Pacing())
    opening = structure()
    pacer.push(1.0, opening)
    assert pacer.due(1.0) == [opening]
    pushed(pacer, 1.5, 300)
    assert pacer.due(1.5)


def test_the_first_token_after_a_long_silence_leaves_at_once() -> None:
    pacer = Pacer(Pacing(), learned(0.6, 80))
    pushed(pacer, 0.0, 80)
    drained(pacer, 0.0)
    assert pacer.empty
    pushed(pacer, 5.0, 80)
    assert pacer.due(5.0)


def test_structure_leaves_with_the_text_before_it() -> None:
    pacer = Pacer(Pacing())
    piece, finish = word(), structure()
    pacer.push(0.0, piece)
    pacer.push(0.0, finish)
    assert pacer.due(0.0) == [piece, finish]


def test_a_burst_is_spread_over_the_silence_that_the_upstream_is_known_for() -> None:
    pacer = Pacer(Pacing(), learned(0.6, 60))
    pushed(pacer, 0.0, 60)
    frames = drained(pacer, 0.0)
    assert 0.55 < frames[-1][0] < 1.0
    assert sum(tokens for at, tokens in frames if at < 0.6) >= 45
    early = sum(tokens for at, tokens in frames if 0.01 < at < 0.21)
    middle = sum(tokens for at, tokens in frames if 0.21 < at < 0.41)
    assert early == pytest.approx(middle, rel=0.1)


def test_the_last_of_a_burst_thins_out_when_the_silence_goes_on() -> None:
    pacer = Pacer(Pacing(), learned(0.5, 80, Kind.REASONING))
    pushed(pacer, 0.0, 80, Kind.REASONING)
    frames = drained(pacer, 0.0)
    assert frames[-1][0] > 1.5
    assert all(later - at < 0.25 for (at, _), (later, _) in itertools.pairwise(frames) if later < 1.5)


def test_everything_is_out_half_a_second_after_the_last_token_when_the_end_is_told() -> None:
    pacer = Pacer(Pacing(), learned(0.9, 300, Kind.REASONING))
    pushed(pacer, 0.0, 300, Kind.REASONING)
    pacer.due(0.0)
    pacer.end(0.2)
    assert drained(pacer, FRAME)[-1][0] <= 0.5


def test_what_the_end_forces_is_spread_evenly() -> None:
    pacer = Pacer(Pacing())
    pushed(pacer, 0.0, 600)
    pacer.end(0.0)
    frames = drained(pacer, 0.0)
    assert frames[-1][0] <= 0.5
    assert max(tokens for _, tokens in frames) < 1.35 * 600 / len(frames)
    assert pacer.deadline_releases > 10


def test_a_push_after_the_end_takes_the_end_back() -> None:
    pacer = Pacer(Pacing(), learned(0.9, 60))
    pushed(pacer, 0.0, 60)
    pacer.end(0.0)
    pacer.due(0.0)
    pushed(pacer, 0.3, 60)
    drained(pacer, 0.3, until=0.82)
    assert not pacer.empty


def test_reasoning_is_out_half_a_second_after_the_answer_begins() -> None:
    pacer = Pacer(Pacing(), learned(2.0, 400, Kind.REASONING))
    pushed(pacer, 0.0, 400, Kind.REASONING)
    pacer.due(0.0)
    answer = word()
    pacer.push(0.2, answer)
    now = 0.2
    while answer not in (frame := pacer.due(now)):
        assert frame is not None
        now += FRAME
    assert now <= 0.7


def test_a_tool_call_without_text_counts_as_the_beginning_of_its_kind() -> None:
    pacer = Pacer(Pacing(), learned(2.0, 400, Kind.REASONING))
    pushed(pacer, 0.0, 400, Kind.REASONING)
    pacer.due(0.0)
    call = Piece(Kind.TOOL, 0.0, b"call")
    pacer.push(0.2, call)
    last = drained(pacer, 0.2)[-1][0]
    assert last <= 0.7


def test_a_heavy_delta_is_cut_and_a_piece_that_must_stay_whole_goes_whole() -> None:
    pacer = Pacer(Pacing(), learned(0.5, 80))
    pacer.push(0.0, text_piece(" word" * 60, Kind.CONTENT))
    assert all(sum(p.weight for p in pacer.due(i * FRAME)) < 8.0 for i in range(60))
    whole = Piece(Kind.CONTENT, 60.0, b"whole")
    pacer.push(2.0, whole)
    frames = [pacer.due(2.0 + i * FRAME) for i in range(30)]
    assert [frame for frame in frames if frame] == [[whole]]


def test_a_joined_piece_goes_with_the_one_before_it() -> None:
    pacer = Pacer(Pacing(), learned(0.6, 60))
    for _ in range(30):
        pacer.push(0.0, word())
        pacer.push(0.0, Piece(Kind.CONTENT, 0.5, b"\xcc\x81", None, joined=True))
    now = 0.0
    while not pacer.empty:
        frame = pacer.due(now)
        assert not frame or not frame[0].joined
        now += FRAME


def test_no_credit_accrues_while_the_client_is_blocked() -> None:
    pacer = Pacer(Pacing(), learned(0.6, 60))
    pushed(pacer, 0.0, 60)
    pacer.due(0.0)
    pacer.resume(30.0)
    frames = drained(pacer, 30.0)
    for i, (at, _) in enumerate(frames):
        assert sum(tokens for then, tokens in frames[: i + 1] if at - then < 0.0595) <= 23.0
    assert pacer.deadline_releases == 0


def test_what_is_held_leaves_at_once_when_flushed() -> None:
    pacer = Pacer(Pacing())
    pushed(pacer, 0.0, 100)
    finish = structure()
    pacer.push(0.0, finish)
    out = pacer.flush()
    assert len(out) == 101
    assert out[-1] is finish
    assert pacer.empty
    assert (pacer.held_bytes, pacer.backlog_tokens, pacer.next_wakeup()) == (0, 0.0, None)
    assert pacer.due(1.0) == []


def test_a_stream_faster_than_the_ceiling_for_good_is_followed() -> None:
    pacer = Pacer(Pacing())
    waits: list[float] = []
    pacer.held = lambda kind, waited: waits.append(waited)
    for i in range(900):
        pushed(pacer, i * 0.01, 8)
        pacer.due(i * 0.01)
    assert max(waits) < 0.8
    assert max(waits[-400:]) < 0.1


def test_bytes_and_tokens_held_are_told() -> None:
    pacer = Pacer(Pacing())
    pushed(pacer, 0.0, 50)
    assert pacer.held_bytes == 200
    assert pacer.backlog_tokens == 50.0
    left = sum(piece.weight for piece in pacer.due(0.0))
    assert pacer.backlog_tokens == 50.0 - left
    assert pacer.held_bytes == 200 - 4 * left


def test_the_pacer_says_when_it_should_be_asked() -> None:
    pacer = Pacer(Pacing(), learned(0.6, 60, Kind.REASONING))
    assert pacer.next_wakeup() is None
    pushed(pacer, 0.0, 60, Kind.REASONING)
    pacer.due(0.0)
    assert pacer.next_wakeup() == pytest.approx(FRAME)
    # Asked only when it says, it is just as punctual.
    asked = 0
    while (now := pacer.next_wakeup()) is not None:
        pacer.due(now)
        asked += 1
    assert now is None
    assert asked < 60


def test_who_is_told_how_long_each_piece_waited() -> None:
    told: list[tuple[Kind, float]] = []
    pacer = Pacer(Pacing(), None, lambda kind, waited: told.append((kind, waited)))
    pushed(pacer, 0.0, 40, Kind.TOOL)
    drained(pacer, 0.0)
    assert len(told) == 40
    assert told[0] == (Kind.TOOL, 0.0)
    assert 0.2 < told[-1][1] <= 0.5


def test_a_frame_holds_no_more_than_a_request_asked_for() -> None:
    pacer = Pacer(Pacing())
    pacer.max_frame_tokens = 1.0
    pushed(pacer, 0.0, 6)
    assert [len(pacer.due(i * FRAME)) for i in range(6)] == [1] * 6


def test_no_more_is_held_than_a_request_asked_for() -> None:
    pacer = Pacer(Pacing(), learned(2.0, 100, Kind.REASONING))
    pacer.max_held_tokens = 10.0
    pushed(pacer, 0.0, 100, Kind.REASONING)
    assert sum(piece.weight for piece in pacer.due(0.0)) == pytest.approx(90.0)


def test_an_upstream_that_tells_its_end_late_is_drained_in_time_once_that_is_known() -> None:
    horizon = learned(0.8, 100)
    horizon.learn_tail(0.7)
    pacer = Pacer(Pacing(), horizon)
    pushed(pacer, 0.0, 100)
    assert drained(pacer, 0.0)[-1][0] <= 0.5


def test_unpaced_everything_is_due_at_once() -> None:
    told: list[float] = []
    pacer = Unpaced(lambda kind, waited: told.append(waited))
    assert pacer.next_wakeup() is None
    pieces = [text_piece("word " * 500, Kind.CONTENT), structure(), word(Kind.TOOL)]
    for piece in pieces:
        pacer.push(1.0, piece)
    assert pacer.next_wakeup() == 1.0
    assert pacer.held_bytes == 2500 + 2 + 4
    pacer.end(1.0)
    pacer.resume(1.0)
    assert pacer.due(1.25) == pieces
    assert told == [0.25] * 3
    assert pacer.empty
    assert pacer.held_bytes == 0
    assert pacer.backlog_tokens == 0.0


def streamed(pacer: Pacer, count: int, step_s: float) -> float:
    """A steady stream of single tokens, `due` asked at each; when the last came."""
    for i in range(count):
        pacer.push(i * step_s, word())
        pacer.due(i * step_s)
    return (count - 1) * step_s


def test_a_fast_stream_keeps_its_last_tokens_until_the_next_arrives() -> None:
    pacer = Pacer(Pacing())
    waits: list[float] = []
    pacer.held = lambda kind, waited: waits.append(waited)
    last = streamed(pacer, 200, 1 / 187)
    assert pacer.backlog_tokens == 3.0
    assert max(waits) < 0.018
    assert pacer.next_wakeup() == pytest.approx(last + 0.215)


def test_the_reserve_bridges_a_silence_word_by_word_asked_only_when_the_pacer_says() -> None:
    pacer = Pacer(Pacing())
    last = streamed(pacer, 200, 1 / 187)
    spoken = [last]
    while (now := pacer.next_wakeup()) is not None:
        spoken += [now for piece in pacer.due(now) if piece.weight]
    assert len(spoken) == 4
    assert all(0.15 < later - at < 0.24 for at, later in itertools.pairwise(spoken))


def test_a_trickle_needs_no_frames() -> None:
    pacer = Pacer(Pacing())
    for i in range(300):
        pacer.push(i * 0.01, word())
        pacer.due(i * 0.01)
        wakeup = pacer.next_wakeup()
        assert wakeup is None or wakeup > i * 0.01 + 0.2


def test_the_end_and_structure_let_the_reserve_go_at_once() -> None:
    ended, told = Pacer(Pacing()), Pacer(Pacing())
    last = streamed(ended, 100, 1 / 187)
    streamed(told, 100, 1 / 187)
    ended.end(last + 0.01)
    assert ended.next_wakeup() == last
    assert len(ended.due(last + 0.01)) == 3
    finish = structure()
    told.push(last + 0.01, finish)
    frame = told.due(last + 0.01)
    assert len(frame) == 4
    assert frame[-1] is finish
    assert ended.empty
    assert told.empty


def test_the_reserve_keeps_a_short_lag_promise() -> None:
    pacer = Pacer(Pacing(max_lag=MaxLag(content=0.1)))
    waits: list[float] = []
    last = streamed(pacer, 100, 1 / 187)
    pacer.held = lambda kind, waited: waits.append(waited)
    drained(pacer, last + FRAME)
    assert len(waits) == 3
    assert max(waits) <= 0.1


def test_the_reserve_leaves_before_what_another_kind_brings() -> None:
    pacer = Pacer(Pacing())
    last = streamed(pacer, 100, 1 / 187)
    burst = [word(Kind.REASONING) for _ in range(60)]
    for piece in burst:
        pacer.push(last + 0.3, piece)
    out: list[Piece] = []
    now = last + 0.3
    while not pacer.empty:
        out += pacer.due(now)
        now += FRAME
    assert [piece.kind for piece in out[:3]] == [Kind.CONTENT] * 3
    assert out[3:] == burst


def test_a_burst_of_another_kind_is_promised_to_begin_soon_and_not_to_be_out_soon() -> None:
    pacer = Pacer(Pacing(), learned(0.9, 120))
    pushed(pacer, 0.0, 20, Kind.REASONING)
    pacer.due(0.0)
    for piece in runs([word() for _ in range(120)]):
        pacer.push(0.1, piece)
    frames = drained(pacer, 0.1)
    assert frames[-1][0] > 0.8
    assert max(tokens for _, tokens in frames) <= 7.0


def test_of_a_run_whose_first_event_outweighs_the_allowance_that_event_leaves_alone() -> None:
    pacer = Pacer(Pacing(), learned(0.6, 60))
    for piece in runs([Piece(Kind.CONTENT, 2.0, b"two") for _ in range(30)]):
        pacer.push(0.0, piece)
    frames = drained(pacer, 0.0)
    assert {tokens for _, tokens in frames} <= {2.0, 4.0}
    assert sum(tokens for _, tokens in frames) == 60.0
