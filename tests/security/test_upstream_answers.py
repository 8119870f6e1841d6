"""What an upstream says cannot become another answer, a header of ours, nor a way to somewhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from gateway.upstream.fields import Malformed, of_response
from security.answers import saying
from support.client import CHAT, ask, chat_body
from support.gateway import serving, settings_for

pytestmark = pytest.mark.anyio

OK: Final = b"HTTP/1.1 200 OK\r\n"
EVIL: Final = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"evil":'

AMBIGUOUS: Final = {
    "both": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EVIL,
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 4\r\n\r\n{}" + EVIL,
    "a list of lengths": OK + b"Content-Length: 2, 2\r\n\r\n{}",
    "a length with a plus": OK + b"Content-Length: +2\r\n\r\n{}",
    "a blank before the colon": OK + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded field": OK + b"X-A: b\r\n Set-Cookie: evil=1\r\nContent-Length: 2\r\n\r\n{}",
    "a bare carriage return": OK + b"X-A: b\rSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\n{}",
    "a NUL": OK + b"X-A: b\x00c\r\nContent-Length: 2\r\n\r\n{}",
    "a control character": OK + b"X-A: b\x01c\r\nContent-Length: 2\r\n\r\n{}",
    "a blank in a name": OK + b"X A: b\r\nContent-Length: 2\r\n\r\n{}",
    "a switch of protocols": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + EVIL,
    "a status of two digits": b"HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\n{}",
    "no head at all": b"{}" + EVIL,
}


@pytest.mark.parametrize("body", [None, chat_body(stream=False), chat_body()], ids=["passed", "answer", "stream"])
@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_an_answer_that_can_be_read_in_two_ways_is_a_502(name: str, body: bytes | None) -> None:
    async with saying(AMBIGUOUS[name]) as upstream, serving(settings_for(upstream.url)) as gateway:
        target = ("GET", "/v1/models") if body is None else ("POST", CHAT)
        answer = await ask(gateway.port, *target, body=body)
        assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_protocol")
        assert answer.header("set-cookie") is None
        assert b"evil" not in answer.body


async def test_bytes_behind_an_answer_are_nobodys_answer() -> None:
    """Response splitting: the connection is not used again."""
    first = OK + b"Content-Length: 2\r\n\r\n{}" + EVIL
    async with saying(first, OK + b"Content-Length: 2\r\n\r\n[]") as upstream, serving(settings_for(upstream.url)) as gateway:
        assert (await ask(gateway.port, "GET", "/v1/files")).body == b"{}"
        assert (await ask(gateway.port, "GET", "/v1/files")).body == b"[]"
        assert upstream.connections == 2


async def test_trailers_and_fields_of_the_hop_end_here() -> None:
    head = (
        OK
        + b"Connection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    async with saying(head + b"2\r\n{}\r\n0\r\nSet-Cookie: evil=1\r\n\r\n") as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "GET", "/v1/files")
        assert answer.body == b"{}"
        assert not {"x-secret", "keep-alive", "proxy-authenticate", "set-cookie"} & {name for name, _ in answer.fields}


async def test_informational_answers_without_end_are_not_kept() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </" + b"a" * 1000 + b">\r\n\r\n"
    async with saying(early * 400) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "GET", "/v1/files")
        assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_protocol")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("body", [None, chat_body(stream=False), chat_body()], ids=["passed", "answer", "stream"])
async def test_a_redirect_is_passed_on_and_never_followed(status: int, body: bytes | None) -> None:
    """Nobody but the upstream that was configured gets its key."""
    async with saying(OK + b"Content-Length: 2\r\n\r\n{}") as other:
        gone = b"HTTP/1.1 %d Go\r\nLocation: %b/models\r\nContent-Length: 0\r\n\r\n" % (status, other.url.encode())
        async with saying(gone) as upstream:
            settings = settings_for(upstream.url, upstream={"api_key": "sk-the-upstreams"})
            async with serving(settings) as gateway:
                target = ("GET", "/v1/models") if body is None else ("POST", CHAT)
                answer = await ask(gateway.port, *target, body=body)
                assert answer.status == status
                assert answer.header("location") == f"{other.url}/models"
                assert (await ask(gateway.port, "GET", "/readyz")).status == 200
        assert other.connections == 0


def test_http2_fields_that_http1_cannot_carry_are_their_streams_error() -> None:
    for value in (b"a\r\nset-cookie: evil=1", b"a\x00", b"a\x01", b"a\x7f"):
        with pytest.raises(Malformed):
            of_response([(b":status", b"200"), (b"x", value)], False, 1000)
    for name in (b"x y", b"x\r\ny", b"X", b"x:"):
        with pytest.raises(Malformed):
            of_response([(b":status", b"200"), (name, b"a")], False, 1000)
    with pytest.raises(Malformed):
        of_response([(b":status", b"200"), (b"content-length", b"1"), (b"content-length", b"2")], False, 1000)
    twice = of_response([(b":status", b"200"), (b"content-length", b"1"), (b"content-length", b"1")], False, 1000)
    assert twice.fields == [(b"content-length", b"1")]


async def test_cors_permissions_of_the_upstream_do_not_open_the_gateway() -> None:
    async with saying(OK + b"Access-Control-Allow-Origin: *\r\nContent-Length: 2\r\n\r\n{}") as upstream:
        async with serving(replace(settings_for(upstream.url))) as gateway:
            answer = await ask(gateway.port, "GET", "/v1/models", headers=[("origin", "https://evil.example")])
            assert answer.status == 403
            assert answer.header("access-control-allow-origin") is None
            assert upstream.heads == []
