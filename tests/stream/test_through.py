"""`through` is `receive` and `due` in one: the same bytes leave, at the same moments, and the same is counted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat import Chat
from gateway.pacing.clusters import Meter
from gateway.pacing.pacer import Pacer, Unpaced
from gateway.policy.holding import Releases
from gateway.settings import Clocks, Pacing
from gateway.stream import Phase, Stream
from support.chunks import DONE, ROLE, STOP, chunk
from support.plays import sse

STEP_S = 0.010
TEXTS = st.lists(st.sampled_from(["a", " word", " Größe", "流", " <b>", "\n", " 👍", "x" * 60, ""]), min_size=1, max_size=40)
PACERS: dict[str, Callable[[], Releases]] = {"raw": Unpaced, "paced": lambda: Pacer(Pacing())}


def a_stream(pacer: Releases, **more: Any) -> Stream:
    return Stream(0.0, Chat(), pacer, Clocks(), heartbeat_every=15.0, heartbeat_style="comment", event_bytes=2**20, **more)


def figures(meter: Meter) -> tuple[object, ...]:
    return meter.tokens, meter.peak_tokens, meter.longest_gap_s, meter.clusters, meter.gap_counts, meter.first_at, meter.last_at


def played(stream: Stream, parts: list[bytes], through: bool) -> tuple[list[tuple[float, bytes]], Stream]:
    """What left, and when: asked as the relay asks, at each arrival and then each frame."""
    out: list[tuple[float, bytes]] = []
    now = 0.0
    for part in parts:
        now += STEP_S
        frame = stream.through(now, part) if through else stream.receive(now, part)
        if frame is None:
            frame = stream.due(now)
        if frame:
            out.append((now, frame))
    while stream.phase is not Phase.ENDED and now < 10.0:
        now += STEP_S
        if frame := stream.due(now):
            out.append((now, frame))
    return out, stream


@pytest.mark.parametrize("pacing", PACERS)
@given(texts=TEXTS, cuts=st.lists(st.integers(0, 4000), max_size=20))
def test_both_ways_give_the_same(pacing: str, texts: list[str], cuts: list[int]) -> None:
    whole = sse([ROLE, *map(chunk, texts), STOP, DONE])
    borders = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    parts = [whole[a:b] for a, b in pairwise(borders)]
    one, first = played(a_stream(PACERS[pacing]()), parts, True)
    two, second = played(a_stream(PACERS[pacing]()), parts, False)
    assert one == two
    assert first.reason == second.reason
    assert figures(first.arrived) == figures(second.arrived)
    assert figures(first.delivered) == figures(second.delivered)
    assert first.first_sent_at == second.first_sent_at


def test_what_ends_a_stream_is_left_to_due() -> None:
    stream = a_stream(Unpaced())
    assert stream.through(0.0, sse([ROLE, chunk("a")])) is None  # nothing had been committed
    assert stream.due(0.0) == sse([ROLE, chunk("a")])
    assert stream.through(0.1, sse([chunk("b")])) == sse([chunk("b")])
    assert stream.through(0.2, sse([STOP, DONE])) is None
    assert stream.due(0.2) == sse([STOP, DONE])
    assert stream.phase is Phase.ENDED


def test_a_stream_whose_frames_are_counted_does_not_take_it() -> None:
    stream = a_stream(Unpaced(), splits=True)
    stream.through(0.0, sse([ROLE, chunk("a")]))
    stream.due(0.0)
    assert stream.through(0.1, sse([chunk("b")])) is None
