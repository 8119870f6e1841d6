"""The parser alone: bytes in, a response out."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.message import BROKEN, Message

from .servers import CHUNKED, LAST_CHUNK, OK, chunk

LIMIT = 1024

WHOLE = [
    OK,
    CHUNKED + chunk(b"data: one\n\n") + chunk(b"data: \xe2\x82\xac two\r\n\r\n") + LAST_CHUNK,
    CHUNKED + b'5;ext=1;other="a;b"\r\nhello\r\n' + b"000\r\nExpires: never\r\nDigest: x\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
    b"HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
    b"HTTP/1.0 200 All is well\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 200\r\nX-Empty:\r\nx-twice: 1\r\nX-Twice: \t 2 \t\r\nContent-Length: 1\r\n\r\n.",
]


@dataclass
class Outcome:
    status: int
    version: bytes
    reason: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    complete: bool
    keep_alive: bool
    surplus: bool


def parse(*pieces: bytes, to_head: bool = False) -> Outcome:
    message = Message(to_head, LIMIT)
    for piece in pieces:
        message.feed(piece)
    return Outcome(
        message.status,
        message.version,
        message.reason,
        message.headers,
        b"".join(message.parts),
        message.complete,
        message.keep_alive,
        message.surplus,
    )


def problem_of(data: bytes) -> str:
    message = Message(False, LIMIT)
    with pytest.raises(BROKEN) as raised:
        message.feed(data)
    assert not message.complete
    return message.problem or str(raised.value)


@given(st.sampled_from(WHOLE), st.data())
def test_where_the_bytes_are_cut_does_not_matter(whole: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert parse(*pieces) == parse(whole)


@given(st.sampled_from(WHOLE), st.data())
def test_no_beginning_of_a_message_is_taken_for_the_whole(whole: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(whole) - 1))
    message = Message(False, LIMIT)
    message.feed(whole[:at])
    message.quiet_bytes = at
    assert not message.complete
    if message.started and message.status == 304:
        return
    assert message.cut() is not None or message.status in (204, 304)


@pytest.mark.parametrize("whole", WHOLE)
def test_byte_by_byte_is_the_same(whole: bytes) -> None:
    assert parse(*[whole[at : at + 1] for at in range(len(whole))]) == parse(whole)
    assert parse(whole).complete
    assert parse(whole).keep_alive


def test_headers_keep_case_order_doubles_and_every_byte() -> None:
    raw = b"HTTP/1.1 200 OK\r\nX-One: a\r\nx-one: b\r\nSQUARE: m\xb2\r\nEmpty:\r\nContent-Length: 0\r\n\r\n"
    assert parse(raw).headers == [
        (b"X-One", b"a"),
        (b"x-one", b"b"),
        (b"SQUARE", b"m\xb2"),
        (b"Empty", b""),
        (b"Content-Length", b"0"),
    ]


def test_chunk_extensions_and_trailers_leave_no_trace() -> None:
    outcome = parse(WHOLE[2])
    assert outcome.body == b"hello"
    assert [name for name, _ in outcome.headers] == [b"Content-Type", b"Transfer-Encoding"]


def test_interim_responses_are_skipped() -> None:
    outcome = parse(WHOLE[3])
    assert (outcome.status, outcome.reason, outcome.headers, outcome.body) == (200, b"OK", [(b"Content-Length", b"2")], b"ok")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_the_answer_to_head_has_no_body_whatever_it_says(head: bytes) -> None:
    outcome = parse(head, to_head=True)
    assert outcome.complete
    assert outcome.keep_alive
    assert outcome.body == b""


def test_a_body_after_the_answer_to_head_is_surplus() -> None:
    outcome = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", to_head=True)
    assert outcome.surplus
    assert outcome.body == b""


@pytest.mark.parametrize("whole", [OK, WHOLE[1]])
@pytest.mark.parametrize("more", [b"x", OK, b"HTTP/1.1 200 Other\r\nX: y\r\n"])
def test_bytes_after_the_end_are_surplus_and_change_nothing_else(whole: bytes, more: bytes) -> None:
    message = Message(False, LIMIT)
    with pytest.raises(BROKEN):
        message.feed(whole + more)
    assert message.complete
    assert message.surplus
    alone = parse(whole)
    assert (message.reason, message.headers, b"".join(message.parts)) == (alone.reason, alone.headers, alone.body)


@pytest.mark.parametrize(
    ("head", "keep"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
    ],
)
def test_whether_the_connection_can_be_kept(head: bytes, keep: bool) -> None:
    assert parse(head).keep_alive is keep


@pytest.mark.parametrize(
    ("sent", "proper"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nall there is", True),
        (b"HTTP/1.0 200 OK\r\nContent-Type: x\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", False),
        (CHUNKED + chunk(b"abc"), False),
        (b"HTTP/1.1 200 OK\r\nContent-Ty", False),
        (b"", False),
        (b"HTTP/1.1 100 Continue\r\n\r\n", False),
    ],
)
def test_the_end_of_the_connection_ends_only_a_body_without_length(sent: bytes, proper: bool) -> None:
    message = Message(False, LIMIT)
    message.feed(sent)
    assert not message.complete
    assert (message.cut() is None) is proper


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nFolded: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nNot a token: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nControl: a\x01b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nNul: a\x00b\r\n\r\n",
        b"HTTP/1.1 007 Bond\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        CHUNKED + b"3\r\nabc\r\nzz\r\n",
        CHUNKED + b"3\r\nabcd\r\n",
        CHUNKED + b"fffffffffffffffffff\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"<html>",
    ],
)
def test_what_is_not_http_is_refused(raw: bytes) -> None:
    assert problem_of(raw)


def test_bare_line_feeds_and_blanks_after_a_chunk_size_are_forgiven() -> None:
    assert parse(b"HTTP/1.1 200 OK\nA: x\nContent-Length: 3\n\nabc").body == b"abc"
    assert parse(CHUNKED + b"3  \r\nabc\r\n0\r\n\r\n").complete


def test_a_head_beyond_the_limit_is_refused_and_says_so() -> None:
    many = b"".join(b"X-%d: %s\r\n" % (n, b"v" * 90) for n in range(20))
    assert str(LIMIT) in problem_of(b"HTTP/1.1 200 OK\r\n" + many + b"\r\n")
    assert str(LIMIT) in problem_of((b"HTTP/1.1 103 Early Hints\r\nLink: " + b"a" * 300 + b"\r\n\r\n") * 4)
    assert str(LIMIT) in problem_of(CHUNKED + b"0\r\n" + many + b"\r\n")


def test_closing_frees_everything_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            message = Message(False, LIMIT)
            message.feed(OK)
            message.close()
            del message
        assert gc.collect() == 0
    finally:
        gc.enable()
