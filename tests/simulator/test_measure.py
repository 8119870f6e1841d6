"""What the demo's client makes of the bytes that it noted, and how the demo draws it."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from rich.console import Console

from gateway.simulator import demo_view
from gateway.simulator.measure import Reading, Recording, Ruler
from gateway.simulator.text import tokens_of

WORDS = [f" w{i}" for i in range(100)]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def delta(**fields: object) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}).encode()


FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def read(arrivals: Sequence[tuple[float, bytes]], closed: float = 10.0, failure: str = "", content: Sequence[str] = ()) -> Reading:
    reading = Reading(Recording(0.0, list(arrivals), closed, failure), Ruler({"content": list(content) or WORDS}))
    reading.advance()
    return reading


def test_tokens_are_measured_by_the_true_text_however_it_is_cut() -> None:
    ruler = Ruler({"content": ["abcd", "ef", "g"], "reasoning": ["xy"]})
    assert ruler.tokens("content", 2) == 0.5
    assert ruler.tokens("content", 3) == 1.0
    assert ruler.tokens("reasoning", 2) == 1.0
    assert ruler.tokens("content", 2) == 1.5
    assert ruler.tokens("content", 9) == 0.0


def test_a_burst_in_one_arrival_is_a_cluster_and_the_same_tokens_spread_are_none() -> None:
    events = [delta(content=word) for word in WORDS]
    burst = read([(0.1, HEAD), (1.0, chunk(b"".join(events)) + chunk(FINISH) + END)])
    assert (burst.meter.peak_tokens, sum(burst.meter.clusters), burst.whole) == (100, 1, True)
    spread = read([(0.1, HEAD), *((1 + i / 100, chunk(event)) for i, event in enumerate(events)), (2.0, chunk(FINISH) + END)])
    assert spread.meter.peak_tokens <= 6
    assert sum(spread.meter.clusters) == 0
    assert burst.text == spread.text
    assert sum(burst.bins) == pytest.approx(sum(spread.bins)) == 100
    assert burst.meter.first_at == spread.meter.first_at == 1.0


def test_bytes_cut_anywhere_read_the_same() -> None:
    raw = HEAD + chunk(delta(role="assistant", content="")) + chunk(delta(reasoning_content="流 👩‍👩‍👧‍👦")) + chunk(delta(content=" w0"))
    raw += chunk(b": keepalive\n\n") + chunk(FINISH) + END
    whole = read([(1.0, raw)])
    cut = read([(1.0, raw[i : i + 1]) for i in range(len(raw))])
    assert whole.pieces == cut.pieces == [("reasoning", "流 👩‍👩‍👧‍👦"), ("content", " w0")]
    assert cut.whole
    assert cut.ending() == "whole (stop)"


def test_endings_are_told_apart() -> None:
    some = HEAD + chunk(delta(content=" w0"))
    assert read([(1.0, some + END)]).ending() == "no finish reason"
    assert read([(1.0, some)], failure="the connection was reset").ending() == "the connection was reset"
    assert read([(1.0, some)]).ending() == "cut off"
    error = chunk(b'data: {"error":{"message":"m","type":"t","code":"upstream_reset"}}\n\n')
    assert read([(1.0, some + error + END)]).ending() == "error event: upstream_reset"
    body = b'{"error":{"message":"m","type":"requests","code":null}}'
    refused = read([(1.0, b"HTTP/1.1 429 Too Many\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))])
    assert refused.ending() == "HTTP 429: requests"
    assert read([(1.0, b"HTTP/1.1 502 Bad\r\ncontent-length: 2\r\n\r\nno")]).ending() == "HTTP 502: an error that is not JSON"
    assert read([(1.0, b"SSH-2.0\r\n")]).ending() == "error event: no HTTP response"
    assert not any(read([(1.0, data)]).whole for data in (some, some + END, some + error + END))


def test_a_timeline_shows_every_burst_and_fits_its_width() -> None:
    bins = [0.0] * 200
    bins[77] = 100.0
    line = demo_view.timeline(bins, 60, 200, unicode=True)
    assert len(line) == 60
    assert line.strip() == "█"
    assert demo_view.timeline(bins, 60, 200, unicode=False).strip() == "#"
    assert demo_view.timeline([0.1], 1, 1, unicode=True) == "▁"


def test_text_is_drawn_in_one_width_everywhere() -> None:
    assert demo_view.drawn("a\u2028b\tc👩‍👩‍👧‍👦🧑🏽‍🚀", unicode=True) == "a b    c👩🧑"
    assert demo_view.drawn("é👩‍🚀流", unicode=False) == "???"


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize(("width", "height"), [(60, 12), (61, 13), (120, 40), (200, 60)])
def test_the_screen_fills_the_terminal_exactly(width: int, height: int, unicode: bool) -> None:
    said = 'One "quoted" line.\n\n```\ncode\n```\n' + "流式文本👩‍👩‍👧‍👦 " * 40 + "word " * 200
    arrivals = [(0.1, HEAD), (0.2, chunk(delta(reasoning_content="Hm.\n" * 50))), (0.3, chunk(delta(content=said)))]
    readings = [read(arrivals, 0.0, content=tokens_of(said)), read([])]
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, legacy_windows=False)
    screen = demo_view.screen("a title " * 40, readings, 6, unicode)
    lines = console.render_lines(screen, console.options.update(height=height), pad=False)
    assert len(lines) == height
    assert all(sum(segment.cell_length for segment in line) == width for line in lines[1:-1])


def test_the_table_has_the_figures_of_both() -> None:
    burst = read([(0.1, HEAD), (1.0, chunk(b"".join(delta(content=word) for word in WORDS)) + chunk(FINISH) + END)])
    table = demo_view.plain_table(demo_view.figures(burst, burst))
    names = [line[:24].strip() for line in table.splitlines()[1:]]
    assert names == [
        "first token",
        "clusters (24+ in 50 ms)",
        "largest burst in 50 ms",
        "longest freeze",
        "total time",
        "characters received",
        "ended",
        "texts",
    ]
    assert "1.000 s" in table
    assert "100 tokens" in table
    assert table.endswith("identical")
    assert demo_view.plain_table(demo_view.figures(burst, read([]))).endswith("DIFFERENT")
