"""The figures of a recording: by the upstream's count of tokens where there is one, and honest of how it ended."""

from __future__ import annotations

import json

import pytest

from gateway.bench.listening import Recording
from gateway.bench.reading import Sample, read
from gateway.bench.summary import quantile, summary

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def chunk(text: str = "", finish: str | None = None, **more: object) -> bytes:
    choices = [{"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}]
    return b"data: " + json.dumps({"id": "c", "choices": choices, **more}).encode() + b"\n\n"


USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":50}}\n\n'
DONE = b"data: [DONE]\n\n"


def recording(*arrivals: tuple[float, bytes], failure: str = "", head: bytes = HEAD) -> Recording:
    came = [(100.0 + at, data) for at, data in arrivals]
    return Recording(100.0, [(100.0, head), *came], came[-1][0] if came else 100.0, failure)


def sample(*arrivals: tuple[float, bytes], **options: object) -> Sample:
    return read(recording(*arrivals, **options), b"/chat/completions")  # type: ignore[arg-type]


def test_tokens_are_the_upstreams_own_where_it_counts_them() -> None:
    found = sample((0.5, chunk("word ") * 40), (1.0, chunk("word ") * 10), (1.1, chunk(finish="stop") + USAGE + DONE))
    assert found.outcome == "whole"
    assert found.counted
    assert found.first_s == pytest.approx(0.5)
    assert found.tokens == pytest.approx(50)
    assert found.clusters == 1
    assert found.peak_tokens == pytest.approx(40)
    assert list(found.gaps_s) == pytest.approx([0.5])
    assert found.longest_gap_s == pytest.approx(0.5)
    assert found.rate == pytest.approx(100)
    assert found.total_s == pytest.approx(1.1)


def test_without_a_count_tokens_are_estimated_and_said_to_be() -> None:
    found = sample((0.5, chunk("abcd" * 30)), (0.6, chunk(finish="stop") + DONE))
    assert not found.counted
    assert 20 <= found.tokens <= 40


@pytest.mark.parametrize(
    ("arrivals", "options", "outcome"),
    [
        ([(0.1, chunk("a"))], {"failure": "reset"}, "reset"),
        ([(0.1, chunk("a"))], {"failure": "timeout"}, "timeout"),
        ([(0.1, chunk("a") + b'data: {"error":{"message":"m"}}\n\n')], {}, "error event"),
        (
            [(0.1, b'{"choices":[{"finish_reason":"stop"}]}')],
            {"head": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"},
            "no stream",
        ),
        ([(0.1, b"<html>")], {"head": b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n"}, "no stream"),
        ([(0.1, chunk("a"))], {"failure": "too large"}, "too large"),
        ([(0.1, b"{}")], {"head": b"HTTP/1.1 429 Too Many\r\ncontent-length: 2\r\n\r\n"}, "HTTP 429"),
        ([(0.1, b"nonsense")], {"head": b""}, "no HTTP"),
        ([(0.1, b"5\r\nda")], {"head": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"}, "cut off"),
    ],
)
def test_what_is_not_whole_is_called_what_it_is(arrivals: list[tuple[float, bytes]], options: dict[str, object], outcome: str) -> None:
    assert sample(*arrivals, **options).outcome == outcome


def test_a_clean_end_without_a_finish_is_no_whole_stream() -> None:
    body = chunk("a")
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert sample((0.1, body), head=head).outcome == "no end"


def test_a_quantile_is_the_nearest_rank() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0], 0.99) == 3.0
    assert quantile([float(n) for n in range(1, 101)], 0.99) == 99.0
    assert quantile([float(n) for n in range(1, 101)], 0.50) == 50.0
    assert quantile([1.0, 2.0], 0.5) == 1.0


def test_a_summary_counts_outcomes_and_takes_figures_of_whole_streams_only() -> None:
    good = sample((0.5, chunk("word ") * 4), (0.9, chunk(finish="stop") + DONE))
    bad = sample((0.1, chunk("a")), failure="reset")
    found = summary([good, bad, good])
    assert found.requests == 3
    assert found.success == pytest.approx(2 / 3)
    assert found.outcomes == {"whole": 2, "reset": 1}
    assert found.first_p50_s == pytest.approx(0.5)
    assert summary([]).success == 0.0
