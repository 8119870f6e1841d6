"""Server-side request forgery and paths that climb: whatever a request's target says, only the upstream is asked, below its API's root."""

from __future__ import annotations

from typing import Final

import pytest

from gateway.settings import Upstream
from gateway.upstream.targets import Target, api_path
from security.answers import saying
from security.raw import LAST, said, statuses
from support import plays
from support.gateway import serving, settings_for
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

OK: Final = plays.json(b'{"ok":true}')
HOST: Final = b"Host: localhost\r\n"

CLIMBING: Final = [
    b"/v1/../admin",
    b"/v1/files/../../admin",
    b"/v1/%2e%2e/admin",
    b"/v1/%2E./admin",
    b"/v1/files/..%2fadmin",
    b"/v1/files%2f..%2f..%2fadmin",
    b"/v1/files%2F%2e%2e%2Fadmin",
    b"/v1/..%5cadmin",
    b"/v1\\..\\admin",
    b"/v1/%252e%252e/admin",
    b"/v1/%252e%252e%252fadmin",
    b"/v1/%25252e%25252e/admin",
    b"/v1/%%32%65%%32%65/admin",
    b"/v1/..;/admin",
    b"/v1/..;x=y/admin",
    b"/v1/..%3b/admin",
    b"/v1/..%00/admin",
    b"/v1/..%23",
    b"/v1/..%3fx",
    b"/v1/%c0%ae%c0%ae/admin",
    b"/v1/..%c0%afadmin",
    b"/v1/.",
    b"/v1/..",
    b"/chat/../../admin",
]


@pytest.mark.parametrize("path", CLIMBING)
async def test_no_path_leaves_the_root_of_the_api(path: bytes) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert statuses(await said(gateway.port, b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n" + LAST))[0] in (400, 404)
        assert upstream.attempts == []


@pytest.mark.parametrize(
    "path", [b"/v1/models/org%2Fmodel", b"/v1/files/a..b", b"/v1/files/..a", b"/v1/models/100%25", b"/v1/files/%0d%0aX-Evil:%201"]
)
async def test_what_is_encoded_stays_so(path: bytes) -> None:
    """Line ends too: decoded, they would be a header of the client's making."""
    async with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as upstream, serving(settings_for(upstream.url)) as gateway:
        assert statuses(await said(gateway.port, b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n" + LAST)) == [200, 200]
        assert upstream.heads[0].startswith(b"GET " + path + b" HTTP/1.1\r\n")
        assert b"x-evil" not in upstream.heads[0].lower().replace(path.lower(), b"")


@pytest.mark.parametrize(
    "target",
    [
        b"http://169.254.169.254/v1/models",
        b"http://user:password@169.254.169.254/v1/models",
        b"https://evil.example/v1/models",
        b"//169.254.169.254/v1/models",
        b"/v1//169.254.169.254/models",
        b"/v1/@169.254.169.254/models",
        b"/v1/models?url=http://169.254.169.254/",
    ],
)
async def test_only_the_upstream_is_asked_whatever_target_and_host_say(target: bytes) -> None:
    for host in (b"169.254.169.254", b"evil.example:1", b"localhost"):
        async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
            forwarded = b"X-Forwarded-Host: evil.example\r\nX-Original-URL: /admin\r\nForwarded: host=evil.example\r\n"
            await said(gateway.port, b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n" + forwarded + b"\r\n" + LAST)
            for attempt in upstream.attempts:
                assert attempt.target.startswith("/v1/")
                assert attempt.named(b"host") == [f"127.0.0.1:{upstream.port}".encode()]


@pytest.mark.parametrize("target", [b"169.254.169.254:80", b"/v1/models", b"localhost:22", b"http://169.254.169.254/"])
async def test_it_is_no_forward_proxy(target: bytes) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert statuses(await said(gateway.port, b"CONNECT " + target + b" HTTP/1.1\r\n" + HOST + b"\r\n" + LAST)) in ([405], [400])
        assert upstream.attempts == []


async def test_trace_is_not_passed_since_its_answer_holds_the_upstreams_key() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url, upstream={"api_key": "sk-the-upstreams"})) as gateway:
        assert statuses(await said(gateway.port, b"TRACE /v1/models HTTP/1.1\r\n" + HOST + b"\r\n" + LAST)) == [405]
        assert upstream.attempts == []


@pytest.mark.parametrize(
    "target", [b"file:///etc/passwd", b"*", b"http://evil.example", b"@evil.example/v1/x", b"/" + b"\xff", b"/v1/\xc3\xa9"]
)
async def test_odd_targets_are_refused_without_a_fault(target: bytes) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert statuses(await said(gateway.port, b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"\r\n" + LAST))[0] in (400, 404)
        assert upstream.attempts == []


async def test_the_longest_target_is_no_fault_either() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        for size in (8_000, 65_400, 65_480):
            answer = await said(gateway.port, b"GET /v1/" + b"a" * size + b" HTTP/1.1\r\n" + HOST + b"\r\n" + LAST)
            assert statuses(answer)[0] in (200, 400, 431)


def test_every_target_stays_on_the_upstreams_host() -> None:
    target = Target.of(Upstream("a", "https://upstream.example/api/v1"))
    for raw in (b"/v1/x", b"/v1//evil.example/x", b"/v1/@evil.example", b"/v1/:80/x", b"/v1/http://evil.example"):
        path = api_path(raw)
        assert path is not None
        url = target.url(path)
        assert (url.scheme, url.host, url.port) == ("https", "upstream.example", None)
        assert url.raw_path.startswith(b"/api/v1/")


async def test_a_client_cannot_set_what_is_the_gateways_to_set() -> None:
    """Fields of the hop, and those that it names as such, end here; so do keys where the upstream has its own."""
    fields = (
        b"Connection: X-Gone, Authorization\r\nX-Gone: 1\r\nProxy-Authorization: Basic eA==\r\nTE: trailers\r\nKeep-Alive: 1\r\n"
        b"Authorization: Bearer the-clients\r\nX-Api-Key: the-clients\r\nApi-Key: the-clients\r\nX-Kept: 1\r\n"
    )
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url, upstream={"api_key": "sk-the-upstreams"})) as gateway:
        assert statuses(await said(gateway.port, b"GET /v1/models HTTP/1.1\r\n" + HOST + fields + b"\r\n" + LAST)) == [200, 200]
        attempt = upstream.attempts[0]
        assert attempt.named(b"authorization") == [b"Bearer sk-the-upstreams"]
        assert b"x-kept" in attempt.names
        assert not {b"x-gone", b"proxy-authorization", b"te", b"keep-alive", b"x-api-key", b"api-key"} & {*attempt.names}
        assert not [value for _, value in attempt.fields if b"the-clients" in value]
