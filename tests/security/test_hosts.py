"""DNS rebinding: a page whose own name was pointed at this machine is of one origin with the gateway, so only that name gives it away."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from gateway.server.hosts import Names
from gateway.server.page.feed import FEED
from gateway.server.page.guard import is_local
from gateway.settings import Listen
from gateway.wire.headers import Fields
from support import plays
from support.client import Headers, ask, chat_body
from support.gateway import serving, settings_for
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

OK: Final = plays.json(b'{"ok":true}')
FIREFOX: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
EVIL: Final = "rebound.evil.com:8080"

# What a browser sends for a page of http://rebound.evil.com:8080: of one origin, and on plain HTTP without Sec-Fetch fields.
PAGES: Final[dict[str, Headers]] = {
    "a script's GET": [("user-agent", FIREFOX), ("referer", f"http://{EVIL}/")],
    "a script's GET that hides where it comes from": [("user-agent", FIREFOX)],
    "a script's POST": [("user-agent", FIREFOX), ("origin", f"http://{EVIL}")],
    "a POST under another agent's name": [("user-agent", "curl/8"), ("origin", f"http://{EVIL}")],
    "a browser that says same-origin": [("sec-fetch-site", "same-origin")],
}
# What programs send.
PROGRAMS: Final[dict[str, Headers]] = {
    "curl": [("user-agent", "curl/8.5.0"), ("accept", "*/*")],
    "Python": [("user-agent", "OpenAI/Python 3.0.0"), ("accept-encoding", "gzip, deflate, br, zstd")],
    "Node": [("user-agent", "node"), ("sec-fetch-mode", "cors"), ("accept-language", "*")],
}
EVERYWHERE: Final = ["/v1/models", "/v1/chat/completions", "/", FEED, "/metrics", "/healthz", "/readyz"]


@pytest.mark.parametrize("name", PAGES)
async def test_a_rebound_page_reaches_nothing(name: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        for path in EVERYWHERE:
            answer = await ask(gateway.port, "GET", path, headers=[("host", EVIL), *PAGES[name]])
            assert (answer.status, answer.json()["error"]["code"]) == (403, "host_not_allowed")
            assert "listen.hosts" in answer.json()["error"]["message"]
        for path in ("/v1/chat/completions", "/-/reload"):
            answer = await ask(gateway.port, "POST", path, chat_body(), [("host", EVIL), *PAGES[name]])
            assert (answer.status, answer.json()["error"]["code"]) == (403, "host_not_allowed")
        assert upstream.attempts == []


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "host",
    ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "192.168.1.7:8080", "gateway:8080", "decluster.llm.svc.cluster.local", "nas.lan",
     "host.docker.internal:8080", "host.containers.internal", "llm.example.com", "llm.example.com:443"],
)  # fmt: skip
async def test_programs_come_by_any_name(name: str, host: str) -> None:
    """SDKs, sidecars, containers with names of services, and proxies that pass `Host` on."""
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert (await ask(gateway.port, "GET", "/v1/files", headers=[("host", host), *PROGRAMS[name]])).status == 200


@pytest.mark.parametrize(
    "host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "chat.localhost", "gateway:8080", "host.docker.internal:8080", "mac.local"]
)
async def test_browsers_come_by_names_that_nobody_can_own(host: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        headers = [("host", host), ("user-agent", FIREFOX), ("origin", f"http://{host}"), ("sec-fetch-site", "same-origin")]
        assert (await ask(gateway.port, "POST", "/v1/files", b"{}", headers)).status == 200


@pytest.mark.parametrize(
    "listen", [Listen(port=0, hosts=("chat.example.com",)), Listen(port=0, cors_origins=("https://chat.example.com",))]
)
async def test_a_name_that_is_listed_is_ours(listen: Listen) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(replace(settings_for(upstream.url), listen=listen)) as gateway:
        headers = [("host", "Chat.Example.com."), ("user-agent", FIREFOX), ("sec-fetch-site", "same-origin")]
        assert (await ask(gateway.port, "GET", "/v1/files", headers=headers)).status == 200


def foreign(listen: Listen, host: str, *fields: tuple[bytes, bytes]) -> bool:
    asked: Fields = [(b"host", host.encode()), *fields]
    return Names(listen).foreign(asked) is not None


def test_once_names_are_listed_no_other_passes_wherever_it_listens() -> None:
    for address in ("127.0.0.1", "0.0.0.0", "::"):  # noqa: S104
        listed = Listen(host=address, hosts=("llm.example.com",))
        assert foreign(listed, "evil.com")
        assert foreign(listed, "xllm.example.com")
        assert foreign(listed, "llm.example.com.evil.com")
        assert not foreign(listed, "LLM.example.com:8443")
        assert not foreign(listed, "10.0.0.7:8080")  # a probe's
        assert not foreign(listed, "gateway")


def test_beyond_loopback_names_are_not_looked_at_until_some_are_listed() -> None:
    """A server in the open has names of its own, which it is not told."""
    assert not foreign(Listen(host="0.0.0.0"), "llm.example.com", (b"origin", b"https://llm.example.com"))  # noqa: S104


def test_a_name_that_passed_for_a_program_does_not_pass_for_a_page() -> None:
    names = Names(Listen())
    assert names.foreign([(b"host", b"evil.com")]) is None
    assert names.foreign([(b"host", b"evil.com"), (b"origin", b"http://evil.com")]) == "evil.com"


def test_what_is_remembered_of_names_is_bounded() -> None:
    names = Names(Listen())
    for number in range(10_000):
        names.foreign([(b"host", b"h%d" % number)])
    assert len(names._passed) <= 256


@pytest.mark.parametrize(
    "field",
    [
        (b"x-forwarded-for", b"192.0.2.7"),
        (b"forwarded", b"for=192.0.2.7"),
        (b"via", b"1.1 proxy"),
        (b"x-real-ip", b"192.0.2.7"),
        (b"origin", b"https://evil.com"),
        (b"sec-fetch-site", b"cross-site"),
    ],
)
def test_nobody_is_local_through_a_proxy_or_a_foreign_page(field: tuple[bytes, bytes]) -> None:
    """A proxy on this machine stands for whoever asked it; a page of elsewhere has the browser ask from here."""
    assert not is_local({"client": ("127.0.0.1", 1), "headers": [(b"host", b"localhost"), field]})


async def test_a_foreign_page_cannot_have_the_configuration_read() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        asked: list[str] = []
        gateway.gateway.reload = lambda: asked.append("reload")
        for headers in ([("origin", "https://evil.com")], [("sec-fetch-site", "cross-site")], [("x-forwarded-for", "192.0.2.7")]):
            assert (await ask(gateway.port, "POST", "/-/reload", b"", [("host", "localhost"), *headers])).status == 403
        assert asked == []
        assert (await ask(gateway.port, "POST", "/-/reload", b"", [("host", "localhost")])).status == 200
        assert asked == ["reload"]
