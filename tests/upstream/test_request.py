"""How a request looks on the wire."""

from __future__ import annotations

import httpx
import pytest

from gateway.upstream.request import encode

from .readers import Pieces

URL = "http://upstream.test:8000/v1/x?q=1"


def head_of(method: str = "POST", url: str = URL, **more: object) -> list[bytes]:
    head = encode(httpx.Request(method, url, **more)).head  # type: ignore[arg-type]
    assert head.endswith(b"\r\n\r\n")
    return head.split(b"\r\n")[:-2]


def test_headers_go_out_in_their_order_and_case() -> None:
    headers = [(b"hOST", b"other"), (b"X-B", b"1"), (b"x-a", b"2"), (b"X-B", b"m\xb2"), (b"Content-Length", b"2")]
    assert head_of(headers=headers, stream=httpx.ByteStream(b"{}")) == [
        b"POST /v1/x?q=1 HTTP/1.1",
        b"hOST: other",
        b"X-B: 1",
        b"x-a: 2",
        b"X-B: m\xb2",
        b"Content-Length: 2",
    ]


def test_host_and_length_are_added_only_where_they_are_missing() -> None:
    bare = httpx.Request("POST", URL, stream=httpx.ByteStream(b"{}"))
    assert encode(bare).head == b"POST /v1/x?q=1 HTTP/1.1\r\nHost: upstream.test:8000\r\nContent-Length: 2\r\n\r\n"
    assert encode(bare).content == b"{}"


def test_a_request_without_a_body_says_so_only_where_one_is_expected() -> None:
    assert head_of("GET", stream=httpx.ByteStream(b"")) == [b"GET /v1/x?q=1 HTTP/1.1", b"Host: upstream.test:8000"]
    assert head_of("POST", stream=httpx.ByteStream(b""))[-1] == b"Content-Length: 0"


def test_an_ipv6_host_has_its_brackets() -> None:
    assert head_of("GET", "http://[::1]:8000/v1", stream=httpx.ByteStream(b""))[1] == b"Host: [::1]:8000"


def test_a_stream_without_length_goes_in_chunks() -> None:
    outgoing = encode(httpx.Request("POST", URL, stream=Pieces([b"a"])))
    assert outgoing.chunked
    assert outgoing.content is None
    assert outgoing.head.endswith(b"Transfer-Encoding: chunked\r\n\r\n")


def test_a_stream_with_its_length_goes_as_it_is() -> None:
    outgoing = encode(httpx.Request("PUT", URL, headers={"content-length": "10"}, stream=Pieces([b"a"])))
    assert not outgoing.chunked
    assert outgoing.length_bytes == 10


def test_an_unknown_method_passes() -> None:
    assert head_of("PROPFIND")[0].startswith(b"PROPFIND ")


@pytest.mark.parametrize(
    "headers",
    [
        [(b"X", b"a\r\nInjected: b")],
        [(b"X", b"a\nInjected: b")],
        [(b"X", b"a\x00b")],
        [(b"X Y", b"a")],
        [(b"X:", b"a")],
        [(b"", b"a")],
        [(b"Content-Length", b"two")],
        [(b"Content-Length", b"5")],
        [(b"Transfer-Encoding", b"gzip")],
        [(b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"2")],
    ],
)
def test_what_would_break_the_framing_is_never_sent(headers: list[tuple[bytes, bytes]]) -> None:
    request = httpx.Request("POST", URL, headers=headers, stream=httpx.ByteStream(b"{}"))
    with pytest.raises(httpx.LocalProtocolError) as raised:
        encode(request)
    assert raised.value.request is request


def test_a_method_cannot_smuggle_a_line() -> None:
    with pytest.raises(httpx.LocalProtocolError):
        encode(httpx.Request("GET /x HTTP/1.1\r\nA: b\r\n", URL))


def test_a_synchronous_stream_is_refused() -> None:
    class Sync(httpx.SyncByteStream):
        pass

    with pytest.raises(httpx.LocalProtocolError, match="asynchronous"):
        encode(httpx.Request("POST", URL, stream=Sync()))
