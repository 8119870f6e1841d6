"""Too much, too slowly, on too many connections: each is refused by a status or ends, and keeps nobody else out."""

from __future__ import annotations

import asyncio
import resource
from dataclasses import replace
from typing import Any, Final

import pytest

from gateway.server.descriptors import raise_limit, room_for
from gateway.server.incoming import FIELDS_AT_MOST
from gateway.settings import Listen, Settings
from security.raw import LAST, said, statuses
from support import plays
from support.client import CHAT, Client, ask, chat_body, head
from support.gateway import Running, serving, settings_for
from support.upstream import SAFETY_S, ScriptedUpstream

pytestmark = pytest.mark.anyio

OK: Final = plays.json(b'{"ok":true}')
HOST: Final = b"Host: localhost\r\n"
GET: Final = b"GET /v1/files HTTP/1.1\r\n" + HOST
POST: Final = b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST


def listening(upstream: ScriptedUpstream, limits: dict[str, Any] | None = None, **listen: Any) -> Settings:
    return replace(settings_for(upstream.url, limits=limits or {}), listen=Listen(port=0, **listen))


async def closed(gateway: Running) -> None:
    """Until the server has no connection."""
    async with asyncio.timeout(SAFETY_S):
        while gateway.server.server_state.connections:
            await asyncio.sleep(0.01)


# Heads

TOO_MUCH: Final = {
    "one long field": GET + b"X-A: " + b"a" * 5000 + b"\r\n\r\n",
    "one field without end": GET + b"X-A: " + b"a" * 500_000,
    "many fields": GET + b"".join(b"X-%d: a\r\n" % number for number in range(FIELDS_AT_MOST)) + b"\r\n",
    "a long name": GET + b"X" * 5000 + b": a\r\n\r\n",
    "a long target": b"GET /v1/" + b"a" * 5000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target without end": b"GET /v1/" + b"a" * 500_000,
}


@pytest.mark.parametrize("name", TOO_MUCH)
async def test_a_head_that_is_too_large_is_a_431(name: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, head_bytes=4096)) as gateway:
        answer = await said(gateway.port, TOO_MUCH[name])
        assert statuses(answer) == [431]
        assert b'"code":"head_too_large"' in answer
        assert upstream.attempts == []


async def test_it_is_one_in_pieces_and_behind_another_request_too() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, head_bytes=4096)) as gateway:
        assert statuses(await said(gateway.port, GET, *[b"X-A: " + b"a" * 900 + b"\r\n"] * 5)) == [431]
        large = GET + b"X-A: " + b"a" * 5000 + b"\r\n\r\n"
        async with await Client.to(gateway.port) as client:
            client.expect("GET")
            client.write(GET + b"\r\n")
            assert (await client.ended()).status == 200
            client.expect("GET")
            client.write(large)
            assert (await client.ended()).status == 431


async def test_heads_up_to_the_limit_pass_and_bodies_do_not_count() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, head_bytes=4096)) as gateway:
        body = chat_body(stream=False, more="x" * 100_000)
        request = POST + b"X-A: " + b"a" * 3800 + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        assert statuses(await said(gateway.port, request + LAST)) == [200, 200]


async def test_trailers_without_end_are_refused() -> None:
    request = POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X-T: aaaa\r\n" * 1000
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, head_bytes=4096)) as gateway:
        assert statuses(await said(gateway.port, request)) == [400]


# Bodies


@pytest.mark.parametrize("framing", ["length", "chunked", "announced"])
async def test_a_body_that_is_too_large_is_a_413(framing: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, {"request_bytes": 2048})) as gateway:
        if framing == "chunked":
            request = (
                POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b" " * 1024 + b"\r\n400\r\n" + b" " * 1024 + b"\r\n1\r\n \r\n"
            )
        else:
            request = POST + b"Content-Length: 2049\r\n\r\n" + (b" " * 2049 if framing == "length" else b"")
        answer = await said(gateway.port, request)
        assert statuses(answer) == [413]
        assert b'"code":"request_too_large"' in answer
        assert b"connection: close" in answer
        assert upstream.attempts == []


# Time


@pytest.mark.parametrize("begun", [b"", b"\r\n", b"GET /v1/", GET, GET + b"X-A: a\r\n", GET + b"X-A: "])
async def test_a_head_that_does_not_end_is_not_waited_for(begun: bytes) -> None:
    """A 408 where something was begun; nothing where nobody waits for an answer."""
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, head_timeout=0.05)) as gateway:
        answer = await said(gateway.port, begun)
        assert statuses(answer) == ([408] if begun.strip() else [])
        await closed(gateway)
        assert upstream.attempts == []


async def test_a_head_that_drips_is_not_waited_for() -> None:
    """Each byte in time, and the whole never: slowloris."""
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, head_timeout=0.2)) as gateway:
        assert statuses(await said(gateway.port, GET, *[b"X-A: a\r\n"] * 40)) in ([408], [])  # []: a reset came before the answer was read
        await closed(gateway)


async def test_the_head_behind_an_answer_is_timed_as_well() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, head_timeout=0.2)) as gateway:
        assert statuses(await said(gateway.port, GET + b"\r\n", GET)) == [200, 408]


@pytest.mark.parametrize("begun", [b"", b"x", b"x" * 60])
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/files", b"/nowhere"])
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_that_does_not_come_on_is_not_waited_for(begun: bytes, path: bytes, chunked: bool) -> None:
    framing = b"Transfer-Encoding: chunked\r\n\r\n5000\r\n" if chunked else b"Content-Length: 20480\r\n\r\n"
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, body_timeout=0.2)) as gateway:
        answer = await said(gateway.port, b"POST " + path + b" HTTP/1.1\r\n" + HOST + framing, begun)
        assert statuses(answer) == ([404] if path == b"/nowhere" else [408])
        await closed(gateway)
        await gateway.idle()
        assert not [attempt for attempt in upstream.attempts if attempt.whole]


async def test_a_body_that_drips_is_not_waited_for() -> None:
    """A byte at a time and chunk extensions without end: neither is progress."""
    for drip in (b"1\r\nx\r\n", b"1;" + b"e" * 50):
        parts = [drip] * 40 if drip.endswith(b"\n") else [drip, *[b"e" * 50] * 40]
        async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, body_timeout=0.4)) as gateway:
            assert statuses(await said(gateway.port, POST + b"Transfer-Encoding: chunked\r\n\r\n", *parts)) in ([408], [])
            await closed(gateway)


async def test_a_body_is_not_timed_while_the_gateway_does_not_read_it() -> None:
    """The upstream is slow, not the client; nor is a client that waits for `100 Continue`."""
    body = b"x" * 3_000_000
    async with ScriptedUpstream(OK, reads=False) as upstream, serving(listening(upstream, body_timeout=0.2)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask("POST", "/v1/files", body)
            await upstream.until(lambda: upstream.connections)
            await asyncio.sleep(0.6)  # three times as long as the body may stand still
            upstream.reading.set()
            assert (await client.ended()).status == 200
        assert len(upstream.attempts[0].body) == len(body)


async def test_slow_but_steady_bodies_pass() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, body_timeout=1.0)) as gateway:
        parts = [b"x" * 400] * 60  # 400 bytes each 20 ms, longer than the timeout in all
        assert statuses(
            await said(gateway.port, b"POST /v1/files HTTP/1.1\r\n" + HOST + b"Content-Length: 24000\r\n\r\n", *parts, LAST)
        ) == [200, 200]


async def test_who_takes_nothing_of_an_answer_is_left() -> None:
    """Also of one that is no stream: else a client that never reads holds the upstream's connection for ever."""
    large = plays.Play(tuple(plays.Write(b"x" * 65_536) for _ in range(400)), fields=plays.JSON, framing="chunked")
    async with ScriptedUpstream(large) as upstream, serving(settings_for(upstream.url, clocks={"client_stall": 0.1})) as gateway:
        client = await Client.to(gateway.port)
        client.stop_reading()
        client.write(head("GET", "/v1/files/f/content", [("host", "localhost")]))
        await upstream.asked()
        await closed(gateway)
        await gateway.idle()
        client.leave(abruptly=True)


# Connections


async def test_unfinished_heads_keep_nobody_out() -> None:
    """At the limit the connection that has waited longest without a request goes, whoever comes next is served."""
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, connections=5)) as gateway:
        slow = []
        for _ in range(20):
            client = await Client.to(gateway.port)
            client.write(GET)
            slow.append(client)
        for _ in range(10):
            assert (await ask(gateway.port, "GET", "/v1/files")).status == 200
        assert sum(client.closed for client in slow) >= 15
        for client in slow:
            client.leave()


async def test_idle_connections_make_room() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(listening(upstream, connections=2)) as gateway:
        idle = [await Client.to(gateway.port) for _ in range(2)]
        for client in idle:
            client.ask("GET", "/v1/files")
            await client.ended()
        assert (await ask(gateway.port, "GET", "/v1/files")).status == 200
        assert [client.closed for client in idle] == [True, False], "the one that was idle longest"
        for client in idle:
            client.leave()


async def test_where_all_connections_answer_the_next_is_told_so() -> None:
    async with ScriptedUpstream(plays.gated(b"data: x\n\n")) as upstream, serving(listening(upstream, connections=2)) as gateway:
        busy = [await Client.to(gateway.port) for _ in range(2)]
        for number, client in enumerate(busy):
            client.ask(target=CHAT, body=chat_body())
            await upstream.asked(number + 1)
        answer = await said(gateway.port, b"")
        assert statuses(answer) == [503]
        assert b'"code":"overloaded"' in answer
        assert b"retry-after: 1" in answer
        for client in busy:
            client.leave()


def test_connections_are_no_more_than_descriptors_suffice_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else accepting one fails, and it could not even be refused. The limit is raised first, as far as the system lets it."""
    limits = [1024, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.__setitem__(slice(None), pair))
    assert room_for(10_000) == 448
    raise_limit(10_000)
    assert limits == [4096, 4096]
    assert room_for(10_000) == 1984
    limits[:] = [1024, resource.RLIM_INFINITY]
    raise_limit(10_000)
    assert room_for(10_000) == 10_000
    limits[:] = [1_000_000, 1_000_000]
    raise_limit(10_000)
    assert limits == [1_000_000, 1_000_000]
