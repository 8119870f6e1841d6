"""What holds of a stream whatever the upstream sends, however it is cut, whenever it comes and wherever it ends."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import Chat
from gateway.errors import Failure
from gateway.stream import Phase
from support import sse as strict
from support.chunks import DONE, ROLE, STOP, USAGE, call, chunk, collect
from support.cuts import cut
from support.plays import sse
from support.virtual import Arrival, Relay, body, stream

_TEXT = st.sampled_from(["a", "word ", "some more words here ", "漢字", "👨‍👩‍👧", "x" * 300, "words " * 60, "\n"])
_EVENTS = st.one_of(
    _TEXT.map(chunk),
    _TEXT.map(lambda text: chunk(reasoning=text)),
    _TEXT.map(lambda text: chunk(tool_calls=[call(0, arguments=text)])),
    st.sampled_from(
        [ROLE, STOP, chunk("end", finish="stop"), chunk(""), chunk(annotations=[1]), chunk(top={"choices": [], "usage": USAGE}), "<p>"]
    ),
)
_ENDS = st.sampled_from([True, None, Failure("upstream_reset", "It broke.")])


CLOSING_S = 200.0  # longer than any script lasts: what follows a finish reason is waited for


@dataclass
class Script:
    datas: list[str]
    arrivals: list[Arrival]
    end: bool | Failure | None
    raw: bool


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    datas = draw(st.lists(_EVENTS, max_size=12)) + draw(st.sampled_from([[], [STOP], [DONE], [STOP, DONE], ['{"error":{"message":"m"}}']]))
    text = sse(datas)
    text = text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text
    pieces = cut(text, draw(st.lists(st.integers(0, max(1, len(text))), max_size=8)))
    at, arrivals = 0.0, []
    for piece in pieces:
        arrivals.append((at, piece))
        at += draw(st.sampled_from([0.0, 0.001, 0.02, 0.3, 2.0, 20.0]))
    whole = [event.data for event in strict.read(text)[0]]
    last = text.rpartition(b"\n\n")[2].removeprefix(b"data: ").strip()  # an event that lacks its blank line alone is one
    if last == DONE.encode() or _is_whole(last):
        whole.append(last.decode())
    return Script(whole, arrivals, draw(_ENDS), draw(st.booleans()))


def _is_whole(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def played(script: Script) -> Relay:
    relay = Relay(stream(Chat(), raw=script.raw, clocks={"closing": CLOSING_S, "silence": 400}))
    relay.play(script.arrivals, end=script.end)
    return relay


def said(relay: Relay) -> list[str]:
    return [event.data for event in strict.read(body(relay.sent))[0]]


@given(scripts())
def test_what_is_delivered_is_a_prefix_of_what_came(script: Script) -> None:
    relay = played(script)
    came, went = collect(_read(script.datas)), collect(said(relay))
    for index, choice in went.choices.items():
        for name, text in choice.texts.items():
            assert came.choices[index].texts[name].startswith(text)
        for number, made in choice.calls.items():
            assert came.choices[index].calls[number].arguments.startswith(made.arguments)
    if relay.stream.failure is None and relay.over:
        assert {index: choice.texts for index, choice in went.choices.items() if choice.texts} == {
            index: choice.texts for index, choice in came.choices.items() if choice.texts
        }


def _read(datas: list[str]) -> list[str]:
    """What of it is the stream's: nothing after its end or an error."""
    out = []
    for data in datas:
        if data.startswith("<"):
            continue
        out.append(data)
        if data == DONE or "error" in data:
            break
    return out


def _proven(datas: list[str]) -> bool:
    """As the protocol has it: [DONE] after something, or a finish reason that no text follows."""
    committed = proven = spoke = False
    for data in _read(datas):
        if data == DONE:
            return committed
        top = json.loads(data)
        if "error" in top:
            return False
        for choice in top["choices"]:
            delta = choice["delta"]
            speaks = any(delta.get(name) for name in ("content", "reasoning", "tool_calls", "annotations"))
            if speaks:
                committed = spoke = True
                proven = False
            if choice["finish_reason"]:
                committed = proven = True
    return proven and committed and spoke is not None


@given(scripts())
def test_a_stream_is_whole_exactly_if_it_is_proven(script: Script) -> None:
    relay = played(script)
    if script.end is None and relay.stream.reason == "upstream_silent":  # held open after a finish reason that came too soon to be believed
        return
    assert (relay.stream.failure is None) == _proven(script.datas)
    got = collect(said(relay))
    assert got.done == (relay.stream.failure is None)
    assert got.after_done == 0


@given(scripts())
def test_every_stream_comes_to_an_end(script: Script) -> None:
    relay = played(script)
    assert relay.over
    assert relay.refused == (relay.stream.phase is Phase.HOLDING)
    assert not relay.stream.wants_upstream


@given(scripts())
def test_frames_hold_whole_events_and_nothing_follows_an_error(script: Script) -> None:
    relay = played(script)
    for _, frame in relay.sent:
        assert frame.endswith(b"\n\n")
    went = said(relay)
    errors = [index for index, data in enumerate(went) if '"error"' in data]
    assert errors in ([], [len(went) - 1])
    assert bool(errors) == (relay.stream.failure is not None and not relay.refused)
    if relay.refused:
        assert relay.sent == []


@given(scripts())
def test_time_goes_on_and_each_moment_has_one_frame_and_at_most_one_heartbeat(script: Script) -> None:
    relay = played(script)
    times = [at for at, _ in relay.sent]
    assert times == sorted(times)
    reads = {at for at, _ in script.arrivals}
    for at in set(times) - reads:
        assert times.count(at) <= 2


@given(scripts())
def test_pacing_changes_when_but_not_what(script: Script) -> None:
    paced, raw = (
        played(Script(script.datas, script.arrivals, script.end, False)),
        played(Script(script.datas, script.arrivals, script.end, True)),
    )
    a, b = collect(said(paced)), collect(said(raw))
    assert {index: choice.texts for index, choice in a.choices.items()} == {index: choice.texts for index, choice in b.choices.items()}
    assert a.order == b.order
    assert (paced.stream.reason, paced.refused) == (raw.stream.reason, raw.refused)
