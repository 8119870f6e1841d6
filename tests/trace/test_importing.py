"""Timings that curl and browsers noted; curl's with curl itself where it is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.traces import TraceError, load
from gateway.traces.command import imported
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
    [trace] = from_curl(text, "t")
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
    assert [burst.at_ms for burst in from_curl(text, "t")[0].bursts] == [2000.0]


def test_sizes_alone_give_estimates_and_say_so() -> None:
    [trace] = from_curl(
        "10:00:00.0 > POST /v1/chat/completions HTTP/1.1\n10:00:01.5 { [1900 bytes data]\n10:00:02.0 { [190 bytes data]\n", "t"
    )
    assert [(burst.at_ms, burst.tokens) for burst in trace.bursts] == [(1500.0, 10), (2000.0, 1)]
    assert "estimated" in trace.about


@pytest.mark.parametrize("text", ["", "hello", "10:00:00.0 == Info: nothing\n"])
def test_what_holds_no_times_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(TraceError, match="--trace-time"):
        from_curl(text, "t")


def test_the_stamps_of_newer_curls_with_their_ids_are_read() -> None:
    text = dump("10:00:00.0 [0-0]", "=> Send header", REQUEST) + dump("10:00:01.0 [0-0]", "<= Recv data", event("one two three"))
    assert [burst.at_ms for burst in from_curl(text.replace("\n", "\r\n"), "t")[0].bursts] == [1000.0]


def test_a_dump_of_http_2_is_read() -> None:
    text = (
        "10:00:00.0 == Info: [HTTP/2] [1] OPENED stream for https://x/v1/chat/completions\n"
        + dump("10:00:00.1", "=> Send header", REQUEST.replace(b"HTTP/1.1", b"HTTP/2"))
        + dump("10:00:00.1", "=> Send data", b'{"stream":true}')
        + dump("10:00:00.5", "<= Recv header", b"HTTP/2 200 \r\n")
        + dump("10:00:00.5", "<= Recv header", b"content-type: text/event-stream\r\n\r\n")
        + dump("10:00:02.1", "<= Recv data", event("one two three"))
    )
    assert [burst.at_ms for burst in from_curl(text, "t")[0].bursts] == [2000.0]


def test_each_request_of_a_dump_is_a_trace_with_its_own_beginning() -> None:
    text = "".join(
        dump(f"10:00:0{at}.0", "=> Send header", REQUEST)
        + dump(f"10:00:0{at}.1", "<= Recv header", HEAD)
        + dump(f"10:00:0{at}.5", "<= Recv data", framed(event("one two three")) + b"0\r\n\r\n")
        for at in (0, 5)
    )
    found = from_curl(text, "t")
    assert [(trace.name, [burst.at_ms for burst in trace.bursts]) for trace in found] == [("t-1", [500.0]), ("t-2", [500.0])]


def test_the_bytes_of_a_tls_handshake_are_no_tokens() -> None:
    text = (
        "10:00:00.0 * TLSv1.3 (IN), TLS handshake, Server hello (2):\n10:00:00.0 { [122 bytes data]\n"
        "10:00:01.0 > POST /v1/chat/completions HTTP/1.1\n"
        "10:00:01.1 * TLSv1.3 (IN), TLS handshake, Newsession Ticket (4):\n10:00:01.1 { [265 bytes data]\n"
        "10:00:02.0 { [1900 bytes data]\n"
    )
    assert [(burst.at_ms, burst.tokens) for burst in from_curl(text, "t")[0].bursts] == [(1000.0, 10)]


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
    assert 1 < len(trace.bursts) <= 16, "a busy machine reads two of its sixteen deltas at once, but none twice"
    assert trace.tokens > 1000
    shown = subprocess.run(
        [sys.executable, "-m", "gateway", "trace", "show", str(out)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert f"{trace.tokens} tokens, {len(trace.bursts)} clusters" in shown.stdout


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_is_imported_in_the_encodings_that_tools_write(tmp_path: Path, encoding: str, capsys: pytest.CaptureFixture[str]) -> None:
    messages = [{"time": "2026-11-29T10:00:00.250Z", "data": event("one two three").decode()[6:].strip()}]
    (tmp_path / "page.har").write_bytes(har(_eventSourceMessages=messages).encode(encoding))
    assert imported(tmp_path / "page.har", None) == 0
    assert '"at_ms":250.0' in capsys.readouterr().out


def test_messages_from_before_their_request_begin_with_it() -> None:
    messages = [{"time": "2026-11-29T09:59:59Z", "data": event("one two three").decode()[6:].strip()}]
    [trace] = from_har(har(_eventSourceMessages=messages), "page")
    assert [burst.at_ms for burst in trace.bursts] == [0.0]


@pytest.mark.parametrize("messages", [[{"data": "x"}], [{"time": "soon", "data": "x"}], ["x"], {"a": 1}, 7])
def test_messages_that_cannot_be_read_are_named_by_their_entry(messages: object) -> None:
    with pytest.raises(TraceError, match="entry 1"):
        from_har(har(_eventSourceMessages=messages), "page")


@pytest.mark.parametrize("text", ['{"log":{"entries":7}}', "{" * 100_000, '{"log":{"entries":[3]}}'])
def test_what_only_looks_like_a_har_file_is_refused(text: str) -> None:
    with pytest.raises(TraceError):
        from_har(text, "page")
