"""Keys, prompts and answers stand nowhere but where they are meant: not in logs, errors, metrics, the page, spans or traces.

One gateway as users run it, at debug level, with everything switched on that writes anything, through many kinds of requests and failures.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.journal.names import credential_of, response_name, stream_name
from gateway.server.page.feed import FEED
from security.answers import saying
from security.raw import LAST, said
from support import plays
from support.chunks import STOP, chunk
from support.client import CHAT, Answer, Client, ask
from support.plays import SSE, Play, Write
from support.process import Process, running
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

CLIENTS_KEY: Final = "sk-decluster-clientsecret-4711"
UPSTREAMS_KEY: Final = "sk-upstreamsecret-0815"
SECOND_KEY: Final = "sk-upstreamsecond-0816"
HEADERS_KEY: Final = "headersecret-2342"
STRANGERS_KEY: Final = "sk-strangersecret-9999"
PROMPT: Final = "pineappleprompt"
ANSWER: Final = "watermelonanswer"
UPSTREAM_SAYS: Final = "cherryerror"  # an upstream's error may repeat a key or a prompt: it is the client's alone
CURSOR_KEY: Final = "idempotencysecret-77"
SECRETS: Final = (CLIENTS_KEY, UPSTREAMS_KEY, SECOND_KEY, HEADERS_KEY, STRANGERS_KEY, PROMPT, ANSWER, UPSTREAM_SAYS, CURSOR_KEY)

CONFIG: Final = """
upstreams:
  - name: first
    base_url: {url}
    api_keys: [{upstreams_key}, {second_key}]
    headers: {{x-company-token: {headers_key}}}
  - name: dead
    base_url: http://127.0.0.1:1/v1
    api_key: {upstreams_key}
  - name: secure
    base_url: https://127.0.0.1:{plain_port}/v1
    api_key: {upstreams_key}
routes:
  - {{models: ["m-dead"], targets: [{{upstream: dead}}]}}
  - {{models: ["m-tls"], targets: [{{upstream: secure}}]}}
  - {{models: ["*"], targets: [{{upstream: first}}]}}
clients:
  - {{name: alice, key_sha256: {hash}}}
retry: {{attempts: 2, base: 0.001, key_rest: 0, key_refused_rest: 0}}
breaker: {{failures: 1000, requests: 100000}}
clocks: {{connect: 0.5, headers: 0.5, first_content: 0.5, silence: 0.5, closing: 0.05}}
heartbeat: {{every: 0.2}}
cost: {{catalogue: false}}
resume: {{grace: 1, hold: 5}}
trace: {{file: {traces}, upstreams: [first]}}
telemetry: {{endpoint: "{collector}"}}
log: {{level: debug, format: {format}}}
limits: {{request_bytes: 65536}}
shutdown: {{grace: 0.5}}
listen: {{head_bytes: 8192, head_timeout: 0.5, body_timeout: 0.5}}
"""

TEXT: Final = plays.sse([chunk(ANSWER), chunk(reasoning=ANSWER), STOP, "[DONE]"])
ERROR: Final = json.dumps({"error": {"message": f"{UPSTREAM_SAYS} {PROMPT} {UPSTREAMS_KEY}", "type": "x", "code": UPSTREAM_SAYS}}).encode()
PLAYS: Final = (
    Play((Write(TEXT),)),
    Play((Write(TEXT[: len(TEXT) // 2]),), end="reset"),
    Play((Write(TEXT[: len(TEXT) // 2]),)),
    Play((Write(plays.sse([chunk(ANSWER), ERROR])),)),
    Play((Write(plays.sse([chunk(ANSWER), '{"broken": "' + ANSWER])),)),
    Play((Write(TEXT[:100]),), end="hang"),
    Play((Write(b"<html>" + ANSWER.encode()),), fields=((b"content-type", b"text/html"),)),
    Play((Write(ANSWER.encode()),), fields=(*SSE, (b"content-encoding", b"gzip"))),
    Play((Write(b'{"id":"x","choices":[{"message":{"content":"' + ANSWER.encode() + b'"}}]}'),), fields=plays.JSON),
    *(plays.json(ERROR, status, (b"x-request-id", b"abc")) for status in (400, 401, 403, 404, 429, 500, 503)),
    plays.json(b'{"data":[{"id":"m-listed"}]}'),
    Play(before_status=True),
    Play((), 307, ((b"location", f"https://evil.example/?key={UPSTREAM_SAYS}".encode()),), framing="length"),
)


def body(model: str = "m", **more: Any) -> bytes:
    return json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": PROMPT}], "user": PROMPT, **more}).encode()


def fields(key: str = CLIENTS_KEY, *more: tuple[str, str]) -> list[tuple[str, str]]:
    return [("content-type", "application/json"), ("authorization", f"Bearer {key}"), ("cookie", f"session={key}"), *more]


async def everything(port: int, seen: list[Answer]) -> None:
    """Requests of every kind that something could be tempted to say too much of."""

    async def on(*arguments: Any, **named: Any) -> None:
        with contextlib.suppress(TimeoutError):  # an answer that is no stream and hangs: its client leaves
            async with asyncio.timeout(2.0):
                seen.append(await ask(port, *arguments, **named))

    for _ in PLAYS:
        await on(body=body(), headers=fields())
    for _ in PLAYS:
        await on(body=body(stream=False), headers=fields())
    for _ in PLAYS:
        await on("GET", f"/v1/files/{PROMPT}?key={PROMPT}", headers=fields())
    for path in ("/v1/messages", "/v1/responses", "/v1/completions"):
        await on("POST", path, body(), [("x-api-key", CLIENTS_KEY), ("content-type", "application/json")])
    for model in ("m-dead", "m-tls"):
        await on(body=body(model), headers=fields())
        await on(body=body(model, stream=False), headers=fields())
    # Refused by the gateway
    await on(body=body(), headers=fields(STRANGERS_KEY))
    await on(body=body(chunk_aggr=PROMPT), headers=fields())
    await on(body=body(stream_options={"cursor_resume": PROMPT}), headers=fields())
    await on(body=body()[:-1], headers=fields())
    await on(body=PROMPT.encode(), headers=fields(CLIENTS_KEY, ("content-encoding", "gzip")))
    await on(body=body(), headers=fields(CLIENTS_KEY, ("content-encoding", "x-unknown")))
    await on(body=body(more=PROMPT * 10_000), headers=fields())
    await on(body=body(), headers=fields(CLIENTS_KEY, ("x-budget-usd", PROMPT)))
    await on(body=body(), headers=fields(CLIENTS_KEY, ("host", "rebound.evil.com"), ("sec-fetch-site", "same-origin")))
    await on("GET", f"/nowhere/{PROMPT}?key={CLIENTS_KEY}", headers=fields())
    await on("GET", CHAT, headers=fields(CLIENTS_KEY, ("upgrade", "websocket"), ("connection", "upgrade")))
    # Come back to
    for number in range(2):
        await on(body=body(), headers=fields(CLIENTS_KEY, ("idempotency-key", CURSOR_KEY)))
        await on(body=body(user=f"another {number}"), headers=fields(CLIENTS_KEY, ("idempotency-key", CURSOR_KEY)))
        await on(body=body(), headers=fields(STRANGERS_KEY, ("idempotency-key", CURSOR_KEY), ("last-event-id", PROMPT)))
    # Left, and broken
    async with await Client.to(port) as client:
        client.ask(body=body(), headers=fields())
        client.leave(abruptly=True)
    for raw in (
        f"GET /{PROMPT} HTTP/1.1\r\nbad header {CLIENTS_KEY}\r\n\r\n",
        f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {CLIENTS_KEY}\r\nContent-Length: 99\r\n\r\n{PROMPT}",
        f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {CLIENTS_KEY}\r\nX-A: " + PROMPT * 1000 + "\r\n\r\n",
        f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {CLIENTS_KEY}\r\nTransfer-Encoding: chunked\r\n\r\nzz{PROMPT}\r\n",
        f"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer {CLIENTS_KEY}",
    ):
        await said(port, raw.encode())


async def shown(port: int) -> bytes:
    """What the gateway says of itself."""
    out = b""
    for path in ("/metrics", "/readyz", "/healthz", "/", "/-/page/app.js"):
        out += (await ask(port, "GET", path, headers=[("host", "localhost")])).body
    out += (await ask(port, "POST", "/-/reload", b"", [("host", "localhost")])).body
    async with await Client.to(port) as client:
        client.ask("GET", FEED, headers=[("host", "localhost")])
        await client.until(lambda answer: answer.frames)
        assert client.answer.status == 200
        out += client.answer.body
    return out + await said(port, LAST)


def own_words(answers: list[Answer]) -> str:
    """Heads, and bodies of errors that are the gateway's. What an upstream said is the client's to read."""
    out = ""
    for answer in answers:
        out += "".join(f"{name}: {value}\n" for name, value in answer.fields if name != "location")
        text = answer.body.decode("utf-8", "replace")
        if answer.status >= 400 and UPSTREAM_SAYS not in text:
            out += text
    return out


@pytest.mark.parametrize("log_format", ["json", "text"])
async def test_no_secret_stands_anywhere(log_format: str, tmp_path: Path) -> None:
    taken = Play((Write(b""),), 200, ((b"content-type", b"application/x-protobuf"),), framing="length")
    answers: list[Answer] = []
    async with ScriptedUpstream(taken) as collector, ScriptedUpstream(*PLAYS * 20) as upstream, saying(ERROR) as plain:
        config = CONFIG.format(
            url=upstream.url, plain_port=plain.port, upstreams_key=UPSTREAMS_KEY, second_key=SECOND_KEY, headers_key=HEADERS_KEY,
            hash=hashlib.sha256(CLIENTS_KEY.encode()).hexdigest(), traces=tmp_path / "traces", collector=collector.url.removesuffix("/v1"),
            format=log_format,
        )  # fmt: skip
        file = tmp_path / "config.yaml"
        file.write_text(config)
        async with running("--config", str(file), "--log-level", "debug", "--log-format", log_format) as process:
            port = await port_of(process, log_format)
            await everything(port, answers)
            page = await shown(port)
            file.write_text(config.replace("attempts: 2", f"attempts: {STRANGERS_KEY}"))
            process.hang_up()
            page += await shown(port)
            process.terminate()
            await process.ended()
            log = process.raw
        spans = b"".join(bytes(attempt.body) for attempt in collector.attempts)
        sent = b"".join(value for attempt in upstream.attempts for _, value in attempt.fields)
    places = {
        "log": log,
        "the gateway about itself": page.decode("utf-8", "replace"),
        "the gateway's own errors": own_words(answers),
        "spans": spans.decode("utf-8", "replace"),
        "traces": (tmp_path / "traces").read_text(),
    }
    for place, text in places.items():
        assert text, f"there is nothing in {place}, so that nothing was shown"
        for secret in SECRETS:
            assert secret not in text, f"{secret} in {place}"
    assert UPSTREAMS_KEY.encode() in sent, "keys reach the upstream"
    assert SECOND_KEY.encode() in sent
    assert CLIENTS_KEY.encode() not in sent.replace(f"session={CLIENTS_KEY}".encode(), b""), "a client's own key goes nowhere"
    assert {answer.status for answer in answers} >= {200, 400, 401, 403, 404, 413, 415, 426, 502, 504}, "failures of many kinds"


async def port_of(process: Process, log_format: str) -> int:
    if log_format == "json":
        return await process.port
    while "url=" not in process.raw:
        await process.changed()
    return int(process.raw.partition("://127.0.0.1:")[2].partition("/")[0])


def test_names_of_recordings_hold_neither_key_nor_credential() -> None:
    """They stand in Redis, for whoever may list its keys."""
    credential = credential_of([(b"authorization", b"Bearer " + CLIENTS_KEY.encode())])
    for name in (
        stream_name(credential, b"/chat/completions", CURSOR_KEY.encode()),
        response_name(credential, b"resp_" + CURSOR_KEY.encode()),
    ):
        assert len(name) == 64
        assert set(name) <= set("0123456789abcdef")


def test_keys_are_not_in_the_processs_own_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--print-config` and a configuration's problems."""
    from gateway.cli import main

    file = tmp_path / "config.yaml"
    file.write_text(
        f"upstreams: [{{name: a, base_url: 'http://127.0.0.1:1', api_key: {UPSTREAMS_KEY}, headers: {{x-token: {HEADERS_KEY}}}}}]\n"
    )
    with contextlib.suppress(SystemExit):
        main(["serve", "--config", str(file), "--print-config"])
    file.write_text(
        f"upstreams: [{{name: a, base_url: 'http://u:{UPSTREAMS_KEY}@h', api_key: '{HEADERS_KEY} x'}}]\nlisten: {{port: {STRANGERS_KEY}}}\n"
    )
    with contextlib.suppress(SystemExit):
        main(["serve", "--config", str(file)])
    said = "".join(capsys.readouterr())
    assert "base_url" in said
    for secret in SECRETS:
        assert secret not in said
