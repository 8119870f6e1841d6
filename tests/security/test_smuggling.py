"""Request smuggling: bytes on whose boundaries two parsers may differ are no requests here, and open no way to the upstream."""

from __future__ import annotations

from typing import Final

import pytest

from security.raw import LAST, said, statuses
from support import plays
from support.chunks import chunk
from support.client import Client, chat_body
from support.gateway import serving, settings_for
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

OK: Final = plays.json(b'{"ok":true}')
HOST: Final = b"Host: localhost\r\n"
POST: Final = b"POST /v1/files HTTP/1.1\r\n" + HOST
GET: Final = b"GET /v1/models HTTP/1.1\r\n" + HOST
EVIL: Final = b"GET /v1/evil HTTP/1.1\r\n" + HOST + b"\r\n"
CHUNKED: Final = POST + b"Transfer-Encoding: chunked\r\n\r\n"
NO_CHUNKS: Final = b"\r\n0\r\n\r\n" + EVIL

# Refused by their heads: the upstream never hears of them.
HEADS: Final = {
    "both": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n" + NO_CHUNKS,
    "both, the other way round": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n" + NO_CHUNKS,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 42\r\n\r\n" + EVIL,
    "the same length twice": POST + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n" + EVIL,
    "a list of lengths": POST + b"Content-Length: 0, 0\r\n\r\n" + EVIL,
    "a length with a plus": POST + b"Content-Length: +4\r\n\r\nabcd",
    "a negative length": POST + b"Content-Length: -4\r\n\r\nabcd",
    "a hexadecimal length": POST + b"Content-Length: 0x4\r\n\r\nabcd",
    "a length with a blank": POST + b"Content-Length: 1 0\r\n\r\n" + EVIL,
    "a length after a vertical tab": POST + b"Content-Length:\x0b4\r\n\r\nabcd",
    "no length": POST + b"Content-Length: \r\n\r\n" + EVIL,
    "a length of 2^64": POST + b"Content-Length: 18446744073709551616\r\n\r\n" + EVIL,
    "a blank before the colon of a length": POST + b"Content-Length : 42\r\n\r\n" + EVIL,
    "a blank before the colon of a coding": POST + b"Transfer-Encoding : chunked\r\n" + NO_CHUNKS,
    "a coding that only looks like chunked": POST + b"Transfer-Encoding: xchunked\r\n" + NO_CHUNKS,
    "a coding in quotes": POST + b'Transfer-Encoding: "chunked"\r\n' + NO_CHUNKS,
    "a coding with a parameter": POST + b"Transfer-Encoding: chunked;q=1\r\n" + NO_CHUNKS,
    "a coding after a vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n" + NO_CHUNKS,
    "an empty coding": POST + b"Transfer-Encoding: \r\n" + NO_CHUNKS,
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\n" + EVIL,
    "chunked and identity": POST + b"Transfer-Encoding: chunked, identity\r\n" + NO_CHUNKS,
    "identity and chunked": POST + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n" + NO_CHUNKS,
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + NO_CHUNKS,
    "gzip and chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n" + NO_CHUNKS,
    "a folded coding": POST + b"Transfer-Encoding:\r\n chunked\r\n" + NO_CHUNKS,
    "chunks in HTTP/1.0": b"POST /v1/files HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n" + NO_CHUNKS,
    "a folded field": GET + b"X-A: b\r\n Content-Length: 42\r\n\r\n" + EVIL,
    "a field folded by a tab": GET + b"X-A: b\r\n\tc\r\n\r\n",
    "a first field that is folded": b"GET /v1/models HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "bare line feeds": b"GET /v1/models HTTP/1.1\nHost: localhost\n\n",
    "a bare line feed in a value": GET + b"X-A: b\nX-Evil: c\r\n\r\n",
    "a bare carriage return in a value": GET + b"X-A: b\rX-Evil: c\r\n\r\n",
    "a NUL in a value": GET + b"X-A: b\x00c\r\n\r\n",
    "a control character in a value": GET + b"X-A: b\x01c\r\n\r\n",
    "a blank in a name": GET + b"X A: b\r\n\r\n",
    "a field without a name": GET + b": b\r\n\r\n",
    "a field without a colon": GET + b"X-A\r\n\r\n",
    "two hosts": GET + b"Host: evil.example\r\n\r\n",
    "a tab in the request line": b"GET\t/v1/models\tHTTP/1.1\r\n" + HOST + b"\r\n",
    "a fourth word in the request line": b"GET /v1/models /x HTTP/1.1\r\n" + HOST + b"\r\n",
    "a NUL in the target": b"GET /v1/\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}

# Their bodies are wrong, so the request has begun: it must not become a whole one, and nothing behind it a request.
BODIES: Final = {
    "a chunk's size in hexadecimal as C has it": b"0x4\r\nabcd\r\n0\r\n\r\n",
    "a chunk's size with a plus": b"+4\r\nabcd\r\n0\r\n\r\n",
    "a negative size": b"-4\r\nabcd\r\n0\r\n\r\n",
    "a blank behind the size": b"4 \r\nabcd\r\n0\r\n\r\n",
    "a size of 2^64": b"10000000000000000\r\nabcd\r\n0\r\n\r\n",
    "line feeds for chunks": b"4\nabcd\n0\n\n",
    "a chunk longer than its size": b"4\r\nabcde\r\n0\r\n\r\n",
    "a chunk without its end": b"4\r\nabcdXX0\r\n\r\n",
    "an extension that ends with a line feed": b"4;a\nabcd\r\n0\r\n\r\n",
    "an extension with a carriage return": b"4;a\rb\r\nabcd\r\n0\r\n\r\n",
    "a trailer that ends with a line feed": b"0\r\nX-T: 1\n\r\n",
    "a length among the trailers": b"0\r\nContent-Length: 42\r\n\r\n",
}


@pytest.mark.parametrize("name", HEADS)
async def test_a_head_that_can_be_read_in_two_ways_is_refused_unread(name: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await said(gateway.port, HEADS[name] + LAST)
        assert statuses(answer) == [400]
        assert b"connection: close\r\n" in answer
        assert b'"code":"invalid_request"' in answer
        assert upstream.attempts == []


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_that_can_be_read_in_two_ways_is_never_whole(name: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert statuses(await said(gateway.port, CHUNKED + BODIES[name] + EVIL + LAST)) == [400]
        await gateway.idle()
        assert not [attempt for attempt in upstream.attempts if attempt.whole or attempt.target.endswith("evil")]


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/0.9"])
async def test_other_versions_of_http_are_refused(version: bytes) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert statuses(await said(gateway.port, b"GET /v1/models " + version + b"\r\n" + HOST + b"\r\n" + LAST)) == [505]
        assert upstream.attempts == []


async def test_what_the_standard_allows_is_read_as_it_says() -> None:
    """Blanks around a length, chunk extensions and trailers: the upstream gets the same body, framed anew."""
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        for request in (POST + b"Content-Length: \t4 \r\n\r\nabcd", CHUNKED + b'4;a=b;c="d"\r\nabcd\r\n0\r\nX-T: 1\r\n\r\n'):
            assert statuses(await said(gateway.port, request + LAST)) == [200, 200]
        assert [bytes(attempt.body) for attempt in upstream.attempts] == [b"abcd", b"abcd"]


async def test_a_trailer_is_no_header() -> None:
    """Whoever checks heads in front of the gateway has not seen it."""
    body = b'{"model":"m-test","messages":[]}'
    trailers = b"Authorization: Bearer stolen\r\nX-Cluster: true\r\nX-Evil: 1\r\n"
    request = b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n%b\r\n"
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert statuses(await said(gateway.port, request % (len(body), body, trailers) + LAST)) == [200, 200]
        assert not {b"authorization", b"x-cluster", b"x-evil"} & {*upstream.attempts[0].names}


async def test_an_upgrade_in_pieces_makes_no_request_of_the_body_behind_it() -> None:
    """llhttp stops at an upgrade and starts anew with whatever comes next."""
    head = POST + b"Content-Length: %d\r\nUpgrade: h2c\r\nConnec" % len(EVIL)
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert statuses(await said(gateway.port, head, b"tion: Upgrade\r\n\r\n", EVIL, LAST)) == [400]
        assert upstream.attempts == []


async def test_behind_a_websocket_that_is_refused_nothing_is_read() -> None:
    request = GET + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert statuses(await said(gateway.port, request + EVIL, EVIL, LAST)) == [426]
        assert upstream.attempts == []


async def test_a_body_that_nobody_read_is_not_changed_while_it_is_skipped() -> None:
    """The offer of an upgrade is taken out of heads before they are parsed; taken out of a body, it would let the body reach into the
    next request."""
    body = b"x\r\nUpgrade: h2c\r\n\r\n" + b"y" * 20
    request = b"POST /nowhere HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body)
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert statuses(await said(gateway.port, request, body, GET + b"\r\n" + LAST)) == [404, 200, 200]
        assert [attempt.target for attempt in upstream.attempts] == ["/v1/models"]


async def test_nothing_is_put_into_an_answer_that_has_begun() -> None:
    """A second request that is none: the first one's answer breaks off, without words that are no part of it."""
    body = chat_body()
    request = b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with ScriptedUpstream(plays.events(chunk("hello"), end="hang")) as upstream, serving(settings_for(upstream.url)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.expect()
            client.write(request)
            await client.until(lambda answer: answer.frames)
            client.write(b"GARBAGE\r\n\r\n")
            answer = await client.ended()
            assert not answer.whole
            assert b"HTTP/1.1" not in answer.body
