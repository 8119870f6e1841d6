"""`decluster check` as its users run it: each upstream in a line, what to do where it cannot be used, and never a key."""

from __future__ import annotations

import asyncio
import datetime
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.checking.ask import Finding, ask
from gateway.settings import Upstream
from gateway.upstream.transport import Transport
from support import plays
from support.plays import JSON, Play, Write
from support.redis import free_port, redis_server
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

SECRET = "sk-0123456789-secret"
LIST = plays.json(b'{"object":"list","data":[{"id":"m-a"},{"id":"m-b"}]}')
PAGE = Play((Write(b"<html>Sign in</html>"),), fields=((b"content-type", b"text/html; charset=utf-8"),), framing="length")


async def checked(config: str, tmp_path: Path, **environ: str) -> tuple[int, str, str]:
    """Exit code and what was said on stdout and stderr, by a process of its own."""
    path = tmp_path / "decluster.yaml"
    path.write_text(config)
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "check", "--config", str(path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**kept, **environ},
    )
    out, err = await process.communicate()
    assert SECRET not in (out + err).decode()
    assert "Traceback" not in err.decode()
    return process.returncode or 0, out.decode(), err.decode()


def one(url: str, more: str = "") -> str:
    return f"upstreams:\n  - {{name: up, base_url: '{url}', api_key: {SECRET}{more}}}\n"


async def test_all_is_well(tmp_path: Path) -> None:
    async with ScriptedUpstream(LIST) as upstream:
        code, out, err = await checked(one(upstream.url), tmp_path)
        assert (code, err) == (0, "")
        assert "ok    up: it answers and lists 2 models" in out
        assert out.endswith("all can be used\n")
        (attempt,) = upstream.attempts
        assert (attempt.method, attempt.target) == ("GET", "/v1/models")
        assert attempt.named(b"authorization") == [f"Bearer {SECRET}".encode()]


async def test_each_upstream_and_each_of_its_keys_is_asked_and_all_are_told(tmp_path: Path) -> None:
    async with ScriptedUpstream(plays.json(b"{}", 401)) as wrong, ScriptedUpstream(LIST) as right:
        config = f"upstreams:\n  - {{name: a, base_url: '{wrong.url}', api_keys: [{SECRET}, {SECRET}2]}}\n  - {{name: b, base_url: '{right.url}'}}\n"
        code, out, _ = await checked(config, tmp_path)
        assert code == 1
        assert "FAIL  a (key 1 of 2): it refuses the key (401)" in out
        assert "FAIL  a (key 2 of 2): it refuses the key (401)" in out
        assert "ok    b: it answers and lists 2 models" in out
        assert out.endswith("2 cannot be used\n")
        assert right.attempts[0].named(b"authorization") == []


@pytest.mark.parametrize(
    ("play", "usable", "said"),
    [
        (plays.json(b"{}", 403), False, "refuses the key (403)"),
        (plays.json(b"{}", 404), False, "no list of models at /v1/models (404): check the path in base_url"),
        (Play(PAGE.writes, 404, PAGE.fields, framing="length"), False, "(a web page) (404)"),
        (PAGE, False, "a web page answers where an API should"),
        (plays.json(b"{}", 429), True, "limit or credit is used up for now (429)"),
        (plays.json(b"{}", 503), False, "answers 503, so it has trouble of its own"),
        (plays.json(b"{}", 407), False, "a proxy in between wants a password"),
        (
            Play((Write(b""),), 302, (*JSON, (b"location", b"https://x.example/")), framing="length"),
            False,
            "sends the gateway elsewhere (302)",
        ),
        (plays.json(b'{"models":[]}'), True, "not with a list of models"),
        (plays.json(b"[]"), True, "not with a list of models"),
        (Play(before_status=True, end="reset"), False, "closed the connection without sending a response"),
    ],
)
async def test_what_an_answer_means(play: Play, usable: bool, said: str) -> None:
    async with ScriptedUpstream(play) as upstream:
        finding = await found(upstream.url)
        assert (finding.usable, said in finding.text) == (usable, True), finding.text


async def found(url: str, key: str | None = SECRET, patience_s: float = 10.0, **more: Any) -> Finding:
    transport = Transport(connections_idle=0)
    try:
        return await ask(Upstream("up", url, api_key=key, **more), key, transport, patience_s)
    finally:
        await transport.aclose()


async def test_without_a_key_a_401_is_what_is_to_be_expected() -> None:
    async with ScriptedUpstream(plays.json(b"{}", 401)) as upstream:
        finding = await found(upstream.url, None)
        assert finding.usable
        assert "clients send their own" in finding.text


async def test_models_that_are_named_and_not_listed_are_worth_a_remark() -> None:
    async with ScriptedUpstream(LIST) as upstream:
        finding = await found(upstream.url, models=("m-a", "m-typo"))
        assert finding.remarks == ("models: it does not list m-typo",)


async def test_a_key_of_another_provider_is_told_and_not_sent(tmp_path: Path) -> None:
    code, out, _ = await checked(
        "upstreams:\n  - {name: up, base_url: 'https://api.openai.com/v1', api_key: sk-ant-0123456789-secret}\n", tmp_path
    )
    assert code == 1
    assert "the key is one of Anthropic's, but base_url is OpenAI's" in out
    assert "0123456789" not in out


async def test_nobody_there(tmp_path: Path) -> None:
    code, out, _ = await checked(one(f"http://127.0.0.1:{free_port()}/v1"), tmp_path)
    assert code == 1
    assert "cannot connect to 127.0.0.1:" in out
    assert "connection refused" in out


async def test_a_name_that_does_not_exist(tmp_path: Path) -> None:
    code, out, _ = await checked(one("https://api.nowhere.invalid/v1"), tmp_path)
    assert code == 1
    assert "cannot resolve the name api.nowhere.invalid" in out


async def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    import ssl

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with ScriptedUpstream(LIST, tls=context) as upstream:
        code, out, _ = await checked(one(upstream.url), tmp_path)
        assert code == 1
        assert "issuer that is not trusted here" in out
        assert "ca_file" in out
        assert (await checked(one(upstream.url, ", ca_file: ca.pem"), tmp_path))[0] == 0


async def test_a_certificate_that_has_expired(tmp_path: Path) -> None:
    import ssl

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", not_after=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)).configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with ScriptedUpstream(LIST, tls=context) as upstream:
        code, out, _ = await checked(one(upstream.url, ", ca_file: ca.pem"), tmp_path)
        assert code == 1
        assert "has expired" in out


async def test_a_proxy_that_is_not_there_is_named_by_its_variable(tmp_path: Path) -> None:
    code, out, _ = await checked(one("http://api.example.com/v1"), tmp_path, HTTP_PROXY=f"http://user:{SECRET}@127.0.0.1:{free_port()}")
    assert code == 1
    assert "HTTP_PROXY" in out


async def test_plain_http_where_tls_was_meant(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        code, out, _ = await checked(one(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"), tmp_path)
        assert code == 1
        assert "is it plain http there?" in out


async def test_an_upstream_that_says_nothing_is_not_waited_for_for_ever() -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    with listener:
        finding = await found(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", patience_s=0.05)
    assert not finding.usable


async def test_a_wrong_configuration_is_exit_code_2_and_nobody_is_asked(tmp_path: Path) -> None:
    async with ScriptedUpstream(LIST) as upstream:
        code, out, err = await checked(one(upstream.url) + "lisen: {}\n", tmp_path)
        assert (code, out) == (2, "")
        assert "decluster.yaml:3: lisen: unknown key; did you mean listen?" in err
        assert upstream.attempts == []


async def test_a_redis_that_limits_are_to_be_counted_in_is_asked_too(tmp_path: Path) -> None:
    async with ScriptedUpstream(LIST) as upstream, redis_server() as redis:
        code, out, _ = await checked(one(upstream.url) + f"admission: {{redis: '{redis.url}'}}\n", tmp_path)
        assert (code, "ok    admission.redis: it answers" in out) == (0, True)
        wrong = f"redis://:{SECRET}@127.0.0.1:{free_port()}/0"
        code, out, _ = await checked(one(upstream.url) + f"admission: {{redis: '{wrong}'}}\n", tmp_path)
        assert (code, "FAIL  admission.redis: it cannot be asked (ConnectionError)" in out) == (1, True)
