"""Who may see the page's figures, and how many may at once; over real sockets."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace

import pytest

from gateway.errors import CODES
from gateway.server.page.feed import FEED, FILES, VIEWERS_AT_MOST
from gateway.server.page.guard import is_local
from gateway.server.page.remedies import REMEDIES
from gateway.settings import Client as KeyHolder
from support.client import Answer, Client
from support.gateway import serving, settings_for
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("address", "host", "local"),
    [
        ("127.0.0.1", b"127.0.0.1:8080", True),
        ("127.0.0.1", b"localhost:8080", True),
        ("127.0.0.1", b"page.localhost", True),
        ("::1", b"[::1]:8080", True),
        ("::ffff:127.0.0.1", b"localhost", True),
        ("127.0.0.1", b"evil.example:8080", False),  # a foreign page whose name was pointed here
        ("127.0.0.1", b"127.0.0.1.evil.example", False),
        ("127.0.0.1", b"localhost.evil.example", False),
        ("127.0.0.1", b"", False),
        ("192.0.2.7", b"localhost:8080", False),
        ("192.0.2.7", b"127.0.0.1", False),
    ],
)
def test_local_is_who_comes_from_here_and_asks_for_here(address: str, host: bytes, local: bool) -> None:
    assert is_local({"client": (address, 1), "headers": [(b"host", host)]}) is local


def test_without_a_peer_nobody_is_local() -> None:
    assert not is_local({"client": None, "headers": [(b"host", b"localhost")]})


def test_every_way_to_end_has_its_remedy() -> None:
    assert REMEDIES.keys() >= CODES.keys()


async def got(port: int, path: str, **headers: str) -> Answer:
    async with await Client.to(port) as visitor:
        visitor.write(f"GET {path} HTTP/1.1\r\n".encode() + b"".join(f"{k}: {v}\r\n".encode() for k, v in headers.items()) + b"\r\n")
        visitor.expect("GET")
        return await visitor.until(lambda answer: answer.status and (answer.over or answer.frames))


async def test_a_foreign_name_is_refused_and_a_client_key_opens() -> None:
    key = KeyHolder("c", hashlib.sha256(b"dk-open").hexdigest())
    async with ScriptedUpstream() as upstream, serving(replace(settings_for(upstream.url), clients=(key,))) as gateway:
        foreign = await got(gateway.port, FEED, host="evil.example")
        assert foreign.status == 403
        assert b"streams" not in foreign.body
        for path in FILES:
            assert (await got(gateway.port, path, host="evil.example")).status == 200, "the page itself is no secret"
        assert (await got(gateway.port, FEED, host="evil.example", authorization="Bearer dk-wrong")).status == 403
        assert (await got(gateway.port, FEED, host="evil.example", authorization="Bearer dk-open")).status == 200
        assert (await got(gateway.port, FEED, host="127.0.0.1")).status == 200


async def test_viewers_are_bounded_and_leaving_makes_room() -> None:
    async with ScriptedUpstream() as upstream, serving(settings_for(upstream.url)) as gateway:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(VIEWERS_AT_MOST):
                viewer = await stack.enter_async_context(await Client.to(gateway.port))
                viewer.ask("GET", FEED, headers=[("host", "localhost")])
                await viewer.until(lambda answer: answer.frames)
            assert (await got(gateway.port, FEED, host="localhost")).status == 503
        await gateway.idle()
        assert (await got(gateway.port, FEED, host="localhost")).status == 200


async def test_a_gateway_that_shuts_down_does_not_wait_for_who_looks() -> None:
    async with ScriptedUpstream() as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as viewer:
        viewer.ask("GET", FEED, headers=[("host", "localhost")])
        await viewer.until(lambda answer: answer.frames)
        await gateway.shut_down()
        assert (await viewer.ended()).whole
