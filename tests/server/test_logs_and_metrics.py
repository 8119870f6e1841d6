"""What is logged and counted: enough to know what went on, and nothing of what was said."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.wire.jsontext import dump
from support import plays
from support.chunks import ROLE, STOP, USAGE, chunk, words
from support.client import Client, ask, chat_body, stream
from support.gateway import Running, serving, settings_for
from support.plays import Play, Write, sse
from support.process import Process, running
from support.upstream import ScriptedUpstream, nobody

pytestmark = pytest.mark.anyio

KEY = "sk-verysecretkey0123456789"
PROMPT = "pineapple-prompt"
ANSWER = "watermelon-answer"
FIELDS = [("content-type", "application/json"), ("authorization", f"Bearer {KEY}"), ("x-api-key", KEY), ("cookie", f"session={KEY}")]
USAGE_CHUNK = chunk(top={"choices": [], "usage": USAGE})


def body(**more: Any) -> bytes:
    return dump({"model": "m-test", "stream": True, "messages": [{"role": "user", "content": PROMPT}], "user": PROMPT, **more})


# Secrets


async def everything(process: Process, upstream: ScriptedUpstream) -> None:
    """Requests of every kind that a log could be tempted to say too much of."""
    port = await process.port
    for headers in (FIELDS, [*FIELDS, ("x-client-streams", "raw")]):
        await ask(port, body=body(), headers=headers)
    await ask(port, body=body(stream=False), headers=FIELDS)
    await ask(port, body=body(), headers=[*FIELDS, ("content-encoding", f"x-{PROMPT}")])
    await ask(port, "POST", f"/v1/files/{PROMPT}?purpose={PROMPT}", PROMPT.encode(), FIELDS)
    await ask(port, "GET", f"/nowhere/{PROMPT}", headers=FIELDS)
    await ask(port, body=body()[:-1], headers=FIELDS)
    async with await Client.to(port) as client:
        client.ask(body=body(), headers=FIELDS)
        await client.until(lambda answer: answer.frames)
        client.leave(abruptly=True)
    async with await Client.to(port) as client:
        client.expect()
        client.write(f"GET /{PROMPT} HTTP/1.1\r\nbad header {KEY}\r\n\r\n".encode())
        await client.ended()
    assert upstream.attempts


@pytest.mark.parametrize("log_format", ["json", "text"])
async def test_no_key_prompt_or_answer_is_ever_logged_or_counted(log_format: str) -> None:
    said = words(f"{ANSWER} ", "and more ")[:3]
    broken = Play((Write(sse([ROLE, chunk(ANSWER)]) + f'data: {{"{ANSWER}'.encode() + b"\n\n"),))
    refused = plays.json(dump({"error": {"message": f"{ANSWER} {KEY}", "code": ANSWER}}), 400)
    html = Play((Write(f"<html>{ANSWER}".encode()),), fields=((b"content-type", b"text/html"),))
    scripts = [
        plays.events(*words(ANSWER)),
        broken,
        plays.events(*words(ANSWER)),
        refused,
        html,
        plays.events(*said, end="reset"),
        plays.events(*said, end="hang"),
    ]
    async with (
        ScriptedUpstream(*scripts) as upstream,
        running("--upstream", upstream.url, "--log-level", "debug", "--log-format", log_format) as process,
    ):
        if log_format == "text":  # its lines are no objects: the port is asked for in another way
            port = await _port_of_text(process)
            process.lines.append({"message": "listening", "url": f"http://127.0.0.1:{port}/v1"})
        await everything(process, upstream)
        metrics = (await ask(await process.port, "GET", "/metrics")).body.decode()
        process.terminate()
        assert await process.ended() == 0
        for secret in (KEY, PROMPT, ANSWER, "Bearer"):
            assert secret not in process.raw
            assert secret not in metrics
        assert "request" in process.raw


async def _port_of_text(process: Process) -> int:
    async with asyncio.timeout(20):
        while "listening" not in process.raw:
            await asyncio.sleep(0.01)
    return int(process.raw.partition("http://127.0.0.1:")[2].split("/")[0])


async def test_an_upstreams_key_is_not_in_what_it_says_of_a_failure() -> None:
    async with nobody() as url, serving(settings_for(url, upstream={"api_key": KEY})) as gateway:
        answer = await stream(gateway.port)
        ready = await ask(gateway.port, "GET", "/readyz")
    assert (answer.status, ready.status) == (502, 503)
    assert KEY not in (answer.body + ready.body).decode()


# The line of a request


async def test_a_request_has_one_line_that_says_how_it_went(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "decluster.request")
    said = [ROLE, *[chunk("word ")] * 60, STOP, USAGE_CHUNK, "[DONE]"]
    async with ScriptedUpstream(plays.events(*said)) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await stream(gateway.port)
        await gateway.idle()
    [record] = [record for record in caplog.records if record.name == "decluster.request"]
    line: dict[str, Any] = vars(record)
    assert record.getMessage() == "request"
    wanted = {
        "path": "/v1/chat",
        "operation": "chat",
        "model": "m-test",
        "upstream": "scripted",
        "stream": True,
        "status": 200,
        "end": "whole",
    }
    assert {key: line[key] for key in wanted} == wanted
    assert line["request_id"] == answer.header("x-request-id")
    assert line["clusters_in"] == 1
    assert line["tokens_in"] == line["tokens_out"] == 75.0
    assert line["peak_tokens_in"] == 75.0
    assert line["peak_tokens_out"] < 75.0
    assert (line["input_tokens"], line["output_tokens"]) == (USAGE["prompt_tokens"], USAGE["completion_tokens"])
    assert 0.0 <= line["upstream_first_s"] <= line["first_token_s"] <= line["duration_s"]


@pytest.mark.parametrize(
    ("play", "headers", "end", "status"),
    [
        (plays.events(ROLE, chunk("a")), [], "upstream_incomplete", 200),
        (plays.json(b'{"error":{"message":"m"}}', 429), [], "upstream_error", 429),
        (plays.events(ROLE), [], "upstream_empty", 502),
        (plays.events(*words("a")), [("x-client-streams", "odd")], "invalid_control", 400),
        (plays.events(*words("a")), [("content-encoding", "odd")], "unsupported_encoding", 415),
    ],
)
async def test_the_line_names_the_end(
    play: Play, headers: list[tuple[str, str]], end: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "decluster.request")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert (await stream(gateway.port, headers)).status == status
        await gateway.idle()
    [record] = [vars(record) for record in caplog.records if record.name == "decluster.request"]
    assert (record["end"], record["status"]) == (end, status)


# Metrics


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def scraped(gateway: Running) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = await ask(gateway.port, "GET", "/metrics")
    assert (answer.status, answer.header("content-type")) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return samples(answer.body)


def total(found: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    return sum(value for (each, pairs), value in found.items() if each == name and labels.items() <= dict(pairs).items())


async def test_both_sides_clusters_are_there_from_the_start() -> None:
    async with ScriptedUpstream() as upstream, serving(settings_for(upstream.url)) as gateway:
        found = await scraped(gateway)
    for side in ("upstream", "downstream"):
        for kind in ("content", "reasoning", "tool"):
            assert found["decluster_clusters_total", frozenset({("side", side), ("kind", kind)})] == 0.0
    assert total(found, "decluster_streams_active") == total(found, "decluster_backlog_tokens") == 0.0


async def test_a_bursty_stream_shows_clusters_on_one_side_only() -> None:
    """Bursts of 40 tokens come in; what a client sees of them holds no cluster."""
    burst = sse([chunk("word ")] * 32)
    play = Play((Write(sse([ROLE])), *(Write(burst, 0.25) for _ in range(6)), Write(sse([STOP, USAGE_CHUNK, "[DONE]"]))))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await stream(gateway.port)
        await gateway.idle()
        found = await scraped(gateway)
    assert answer.body.count(b"word ") == 192
    assert total(found, "decluster_clusters_total", side="upstream", kind="content") == 6
    assert total(found, "decluster_clusters_total", side="downstream") <= 3  # a busy machine runs frames together
    labels = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "openai", "gen_ai_request_model": "m-test"}
    for name in (
        "gen_ai_client_operation_duration_seconds_count",
        "gen_ai_client_operation_time_to_first_chunk_seconds_count",
        "gen_ai_server_request_duration_seconds_count",
        "gen_ai_server_time_to_first_token_seconds_count",
        "gen_ai_server_time_per_output_token_seconds_count",
    ):
        assert total(found, name, **labels) == 1, name
    assert total(found, "gen_ai_client_operation_time_per_output_chunk_seconds_count", **labels) == 5
    assert total(found, "decluster_stream_gap_seconds_count", side="upstream", kind="content") == 5
    assert total(found, "decluster_stream_gap_seconds_count", side="downstream", kind="content") > 5
    assert total(found, "decluster_cluster_tokens_count", side="upstream") == 1
    assert total(found, "decluster_stream_end_total", reason="whole") == 1
    assert total(found, "decluster_upstream_attempts_total", upstream="scripted", outcome="ok") == 1
    assert total(found, "gen_ai_client_token_usage_sum", gen_ai_token_type="input", **labels) == USAGE["prompt_tokens"]
    assert total(found, "gen_ai_client_token_usage_sum", gen_ai_token_type="output", **labels) == USAGE["completion_tokens"]
    assert total(found, "decluster_hold_seconds_count", kind="content") > 6  # of pieces, which may hold several tokens
    assert total(found, "decluster_usage_missing_total") == 0
    assert total(found, "decluster_overhead_seconds_count") == 1


async def test_without_pacing_both_sides_show_the_same_clusters() -> None:
    async with ScriptedUpstream(plays.events(*words(*["word "] * 60))) as upstream, serving(settings_for(upstream.url)) as gateway:
        await stream(gateway.port, [("x-client-streams", "raw")])
        await gateway.idle()
        found = await scraped(gateway)
    assert [total(found, "decluster_clusters_total", side=side) for side in ("upstream", "downstream")] == [1, 1]
    assert total(found, "decluster_usage_missing_total") == 1


async def test_models_that_nobody_knows_are_counted_as_other_and_those_listed_by_name() -> None:
    listed = plays.json(b'{"data":[{"id":"m-listed"},{"id":5},{}]}')
    async with ScriptedUpstream(listed, plays.events(*words("a"))) as upstream, serving(settings_for(upstream.url)) as gateway:
        await ask(gateway.port, "GET", "/v1/models")
        for model in ("m-listed", "m-test", "m-made-up", None, 7, "x" * 5000):
            await stream(gateway.port, model=model)
        await gateway.idle()
        found = await scraped(gateway)
    models = {dict(pairs)["gen_ai_request_model"] for (_, pairs) in found if "gen_ai_request_model" in dict(pairs)}
    assert models == {"m-listed", "m-test", "_other"}
    assert total(found, "gen_ai_server_request_duration_seconds_count", gen_ai_operation_name="chat", gen_ai_request_model="_other") == 4


async def test_histograms_are_well_formed() -> None:
    async with ScriptedUpstream(plays.events(*words("a ", "b"))) as upstream, serving(settings_for(upstream.url)) as gateway:
        await stream(gateway.port)
        await gateway.idle()
        found = await scraped(gateway)
    counts = {(name[: -len("_count")], pairs): value for (name, pairs), value in found.items() if name.endswith("_count")}
    assert counts
    for (name, pairs), count in counts.items():
        buckets = {
            float(dict(each)["le"]): value for (bucket, each), value in found.items() if bucket == f"{name}_bucket" and pairs <= each
        }
        assert buckets[math.inf] == count
        assert [buckets[bound] for bound in sorted(buckets)] == sorted(buckets.values())
    bounds = sorted({float(dict(pairs)["le"]) for (name, pairs) in found if name == "gen_ai_server_time_to_first_token_seconds_bucket"})
    assert len([bound for bound in bounds if 0.001 <= bound <= 0.05]) >= 5  # they resolve 1 to 50 ms


async def test_a_request_that_failed_is_counted_with_its_reason() -> None:
    async with nobody() as url, serving(settings_for(url)) as gateway:
        await stream(gateway.port)
        await ask(gateway.port, body=chat_body(stream=False))
        await gateway.idle()
        found = await scraped(gateway)
    assert total(found, "gen_ai_server_request_duration_seconds_count", error_type="upstream_unreachable") == 2
    assert total(found, "decluster_stream_end_total", reason="upstream_unreachable") == 1
    assert total(found, "decluster_upstream_attempts_total", outcome="upstream_unreachable") == 2


async def test_running_streams_are_counted_while_they_run() -> None:
    async with ScriptedUpstream(Play((Write(sse([ROLE, *[chunk("word ")] * 200])),), end="hang")) as upstream:
        async with serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
            client.ask(body=chat_body())
            await client.until(lambda answer: answer.frames)
            found = await scraped(gateway)
            assert total(found, "decluster_streams_active") == 1
            assert total(found, "decluster_backlog_tokens") > 0
