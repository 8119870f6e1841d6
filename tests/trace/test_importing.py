"""Timings that curl and browsers noted; curl's with curl itself where it is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.traces import TraceError, load
from gateway.traces.importing import from_curl, from_har
from support.programs import program
from support.simulated import simulated

ROOT = Path(__file__).parents[2]


def dump(stamp: str, what: str, data: bytes) -> str:
    lines = [f"{stamp} {what}, {len(data)} bytes (0x{len(data):x})"]
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        lines.append(f"{at:04x}: {part.hex(' ')} {'.' * len(part)}")
    return "\n".join(lines) + "\n"


def event(text: str) -> bytes:
    return (
        b"data: " + json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}).encode() + b"\n\n"
    )


def framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-hidden\r\n\r\n"


@pytest.mark.parametrize("chunks", [True, False], ids=["with the chunks' framing", "without"])
def test_curls_dump_gives_times_and_tokens_over_midnight(chunks: bool) -> None:
    wrap = framed if chunks else bytes
    text = (
        dump("23:59:59.000000", "=> Send header", REQUEST)
        + dump("23:59:59.100000", "<= Recv header", HEAD)
        + dump("23:59:59.500000", "<= Recv data", wrap(event("four five six seven") * 10))
        + dump("00:00:01.000000", "<= Recv data", wrap(event("eight")))
    )
    trace = from_curl(text, "t")
    assert [round(burst.at_ms) for burst in trace.bursts] == [500, 2000]
    assert trace.bursts[0].tokens > 10 * trace.bursts[1].tokens
    assert "seven" not in repr(trace)
    assert "sk-hidden" not in repr(trace)


def test_an_event_cut_between_two_reads_counts_when_it_is_whole() -> None:
    whole = event("one two three four")
    text = (
        dump("10:00:00.0", "=> Send header", REQUEST)
        + dump("10:00:01.0", "<= Recv data", whole[:30])
        + dump("10:00:02.0", "<= Recv data", whole[30:])
    )
    assert [burst.at_ms for burst in from_curl(text, "t").bursts] == [2000.0]


def test_sizes_alone_give_estimates_and_say_so() -> None:
    trace = from_curl(
        "10:00:00.0 > POST /v1/chat/completions HTTP/1.1\n10:00:01.5 { [1900 bytes data]\n10:00:02.0 { [190 bytes data]\n", "t"
    )
    assert [(burst.at_ms, burst.tokens) for burst in trace.bursts] == [(1500.0, 10), (2000.0, 1)]
    assert "estimated" in trace.about


@pytest.mark.parametrize("text", ["", "hello", "10:00:00.0 == Info: nothing\n"])
def test_what_holds_no_times_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(TraceError, match="--trace-time"):
        from_curl(text, "t")


def har(**entry: object) -> str:
    base = {"startedDateTime": "2026-11-29T10:00:00.000Z", "request": {"url": "https://x/v1/chat/completions"}}
    return json.dumps({"log": {"entries": [{"startedDateTime": "x"}, {**base, **entry}]}})


def test_a_browsers_messages_have_their_times() -> None:
    messages = [
        {"time": "2026-11-29T10:00:00.250Z", "eventName": "message", "data": event("one two").decode()[6:].strip()},
        {"time": "2026-11-29T10:00:01.250Z", "eventName": "message", "data": event("three").decode()[6:].strip()},
    ]
    [trace] = from_har(har(_eventSourceMessages=messages), "page")
    assert [round(burst.at_ms) for burst in trace.bursts] == [250, 1250]


def test_a_har_file_without_times_says_what_to_do() -> None:
    with pytest.raises(TraceError, match="curl -N"):
        from_har(har(), "page")
    with pytest.raises(TraceError, match="no HAR"):
        from_har("[]", "page")


def test_a_stream_that_curl_itself_noted_is_played_again(tmp_path: Path) -> None:
    log, out = tmp_path / "curl.txt", tmp_path / "t.jsonl"
    body = json.dumps({"model": "large-deltas", "stream": True, "messages": [{"role": "user", "content": "hi"}]})
    with simulated() as url:
        asked = [program("curl"), "-sN", "--noproxy", "*", "--trace-time", "--trace", str(log), "-H", "content-type: application/json"]
        asked += ["-H", "x-simulate-speed: 5", "-d", body, f"{url}/v1/chat/completions"]
        subprocess.run(asked, check=True, stdout=subprocess.DEVNULL, timeout=60)
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "trace", "import", str(log), "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [trace] = load(out)
    assert len(trace.bursts) == 16
    shown = subprocess.run(
        [sys.executable, "-m", "gateway", "trace", "show", str(out)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert "16 clusters" in shown.stdout
