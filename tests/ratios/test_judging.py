"""Which of a crowd's streams were whole, refused or wrong, by what the clients noted."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import pytest

from benchmarks import loads
from benchmarks.judging import MARK, Figures, figures, intact

MODEL = "bursts/3/10/0.3"
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
EVENTS = loads.events_in(MODEL)
MS = 1_000_000


@dataclass
class Seen:
    """What a client noted of one stream."""

    began_ns: int = 0
    times_ns: array[int] = field(default_factory=lambda: array("q", [1 * MS, 2 * MS, 420 * MS]))
    counts: array[int] = field(default_factory=lambda: array("l", [2, EVENTS - 4, 2]))
    kept: list[bytes] | None = None
    status: bytes = b"200"
    told: bool = False
    ended: bool = True


def body(sent_ns: int = 7) -> bytes:
    return loads.OPENING + loads.first_text(sent_ns) + b"".join(data for _, data in loads.script(MODEL))


def chunked(data: bytes, size: int) -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return HEAD + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def judged(*streams: Seen) -> Figures:
    return figures(MODEL, streams, {number: [0, 100 * MS, 200 * MS, 300 * MS] for number in range(len(streams))})


@pytest.mark.parametrize("model", [MODEL, "trickle/100/3", "trace/codex-refactor", "short"])
def test_each_event_holds_the_mark_once(model: str) -> None:
    events = (loads.OPENING + loads.first_text(0) + b"".join(data for _, data in loads.script(model))).split(b"\n\n")[:-1]
    assert len(events) == loads.events_in(model)
    assert all(event.count(MARK) == 1 for event in events)


def test_a_stream_that_brought_all_and_ended_is_whole() -> None:
    found = judged(Seen(), Seen())
    assert (found.whole, found.wrong, found.refused, found.at_once) == (2, 0, 0, 2)
    assert found.tokens == 2 * (EVENTS - 3)
    assert found.late == 0
    assert found.first_p99_ms == 1.0


@pytest.mark.parametrize(
    "seen",
    [
        Seen(ended=False),
        Seen(counts=array("l", [2, EVENTS - 5, 2])),
        Seen(counts=array("l", [2, EVENTS - 3, 2])),
        Seen(status=b"500"),
        Seen(status=b"", times_ns=array("q"), counts=array("l"), ended=False),
        Seen(kept=[chunked(body(), 100).replace(b" now", b" won", 1)]),
    ],
    ids=["no end", "too few", "too many", "an error", "no connection", "other bytes"],
)
def test_what_is_not_whole_is_wrong(seen: Seen) -> None:
    assert judged(seen).wrong == 1


def test_a_refusal_is_none_of_both_and_says_whether_it_told_when_to_come_again() -> None:
    found = judged(Seen(status=b"503", told=True, ended=False), Seen(status=b"503", ended=False))
    assert (found.refused, found.told, found.wrong, found.whole) == (2, 1, 0, 0)


def test_late_tokens_are_those_past_the_promise() -> None:
    found = judged(Seen(times_ns=array("q", [1 * MS, 2 * MS, 900 * MS]), counts=array("l", [2, EVENTS - 6, 4])))
    assert found.late == 2
    assert found.past_ms == pytest.approx(100)


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_chunks_do_not_matter_and_bytes_do(size: int) -> None:
    assert intact(chunked(body(), size), MODEL)
    assert not intact(chunked(body()[:-2], size), MODEL)
    assert not intact(chunked(body() + b"\n", size), MODEL)
    assert not intact(chunked(body().replace(b" now", b" won", 1), size), MODEL)
