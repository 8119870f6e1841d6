"""Recorded by a running gateway: by upstream, by one request's header, by the command, over rotation; and played again by `simulate`."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.pacing.clusters import Meter
from gateway.settings import Tracing
from gateway.traces import Trace, TraceError, load
from support.chunks import chunk, words
from support.client import stream
from support.gateway import Running, serving, settings_for
from support.plays import Play, Write, sse
from support.process import running
from support.simulated import simulated
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
TEXT = "Secretword " * 40
GOOD = Play((Write(sse([chunk(TEXT), *words(" Secretword")])),))
CUT = Play((Write(sse([chunk(TEXT)])),), end="reset")


async def recorded(gateway: Running, path: Path) -> list[Trace]:
    await gateway.idle()
    await asyncio.to_thread(gateway.gateway.tracer.close)
    try:
        return load(path)
    except TraceError:
        return []


async def test_every_stream_of_a_named_upstream_is_noted_without_its_text_or_key(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    async with ScriptedUpstream(GOOD, CUT) as upstream:
        settings = replace(settings_for(upstream.url), trace=Tracing(str(path), ("scripted",)))
        async with serving(settings) as gateway:
            for _ in range(2):
                await stream(gateway.port, [("x-api-key", "sk-secret-key")])
            whole, cut = await recorded(gateway, path)
    assert whole.tokens == pytest.approx(len(TEXT + " Secretword") / 4, abs=2)
    assert sum(burst.tokens for burst in whole.delivered) == pytest.approx(whole.tokens, abs=2)
    assert (whole.end, whole.dialect, whole.upstream, whole.model) == ("whole", "chat", "scripted", "m-test")
    assert cut.end == "upstream_reset"
    written = path.read_text()
    for secret in ("ecretword", "sk-secret-key", "hi"):
        assert secret not in written.replace("which", "")


@pytest.mark.parametrize(("value", "noted"), [("true", True), ("1", True), ("false", False), ("", False)])
async def test_one_request_asks_for_its_note_by_a_header_that_goes_no_further(tmp_path: Path, value: str, noted: bool) -> None:
    path = tmp_path / "t.jsonl"
    async with ScriptedUpstream(GOOD) as upstream:
        async with serving(replace(settings_for(upstream.url), trace=Tracing(str(path)))) as gateway:
            await stream(gateway.port, [("x-stream-trace", value)])
            assert len(await recorded(gateway, path)) == noted
        assert upstream.attempts[0].named(b"x-stream-trace") == []


async def test_without_a_file_the_header_asks_for_nothing_and_nothing_is_kept() -> None:
    async with ScriptedUpstream(GOOD) as upstream, serving(settings_for(upstream.url)) as gateway:
        meters = gateway.gateway.tracer.meters("scripted", [(b"x-stream-trace", b"true")])
        assert [type(meter) for meter in meters] == [Meter, Meter]
        assert (await stream(gateway.port, [("x-stream-trace", "true")])).events[-1].data == "[DONE]"
        assert upstream.attempts[0].named(b"x-stream-trace") == []


async def test_the_file_becomes_its_predecessor_as_it_fills(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    async with ScriptedUpstream(*[GOOD] * 24) as upstream:
        async with serving(replace(settings_for(upstream.url), trace=Tracing(str(path), ("scripted",), 4096))) as gateway:
            for _ in range(24):
                await stream(gateway.port)
            assert await recorded(gateway, path)
    assert path.stat().st_size <= 4096
    assert 0 < (tmp_path / "t.jsonl.1").stat().st_size <= 4096


async def test_a_model_that_is_called_anything_spoils_no_file(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    async with ScriptedUpstream(GOOD, GOOD) as upstream:
        async with serving(replace(settings_for(upstream.url), trace=Tracing(str(path), ("scripted",)))) as gateway:
            for model in ("a\n\x1b[2J\u202e<b>👩\u200d💻" + "x" * 3000, "m-test"):
                await stream(gateway.port, model=model)
            traces = await recorded(gateway, path)
    assert len(traces) == 2


async def test_a_disk_that_is_full_is_told_of_once_and_harms_no_stream(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedUpstream(GOOD, GOOD) as upstream:
        async with serving(replace(settings_for(upstream.url), trace=Tracing("/dev/full", ("scripted",)))) as gateway:
            for _ in range(2):
                assert (await stream(gateway.port)).events[-1].data == "[DONE]"
            await gateway.idle()
            await asyncio.to_thread(gateway.gateway.tracer.close)
    assert [record.message for record in caplog.records].count("traces are lost") == 1


async def test_a_configuration_file_says_what_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    async with ScriptedUpstream(GOOD) as upstream:
        config = tmp_path / "c.yaml"
        config.write_text(f"upstreams: [{{name: main, base_url: {upstream.url}}}]\ntrace: {{file: {path}, upstreams: [main]}}\n")
        async with running("--config", str(config)) as gateway:
            await stream(await gateway.port)
            gateway.terminate()
            assert await gateway.ended() == 0
    [trace] = load(path)
    assert trace.upstream == "main"


@contextmanager
def recording(upstream: str, out: Path) -> Iterator[int]:
    """`decluster trace record`; its port."""
    command = [sys.executable, "-m", "gateway", "trace", "record", "--upstream", upstream, "--out", str(out), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "listening" in line)
            found = re.search(r"http://127\.0\.0\.1:(\d+)/v1", line)
            assert found is not None, line
            yield int(found[1])
        finally:
            process.terminate()
            process.stderr.read()
            assert process.wait() == 0


def asked(url: str, model: str, speed: str) -> bytes:
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
    headers = {"content-type": "application/json", "x-simulate-speed": speed}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/chat/completions", body, headers)) as response:
        return bytes(response.read())


def test_what_the_command_records_simulate_plays_again(tmp_path: Path) -> None:
    out = tmp_path / "bursts.jsonl"
    with simulated() as upstream:
        with recording(upstream, out) as port:
            asked(f"http://127.0.0.1:{port}", "clusters", "20")
            asked(f"http://127.0.0.1:{port}", "clusters", "20")
        first, second = load(out)
    assert first.tokens > 1000
    assert first.upstream == "default"
    with simulated("--trace", str(out)) as upstream:
        with urllib.request.urlopen(upstream + "/v1/models") as response:
            assert {first.name, second.name} <= {model["id"] for model in json.load(response)["data"]}
        again = tmp_path / "again.jsonl"
        with recording(upstream, again) as port:
            assert b"[DONE]" in asked(f"http://127.0.0.1:{port}", first.name, "1")
        [played] = load(again)
    assert played.tokens == pytest.approx(first.tokens, rel=0.05)
    assert len(played.bursts) == pytest.approx(len(first.bursts), rel=0.2)


def test_simulate_refuses_a_file_that_holds_no_trace_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("{}")
    command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", "--trace", str(tmp_path / "none.jsonl")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"decluster simulate: error: .*none\.jsonl:1: bursts: is a list.*\n", done.stderr)
