"""What the bytes of an upstream's answer are taken for."""

from __future__ import annotations

import gzip
import zlib

import brotli
import httpx
import pytest
import zstandard

from gateway.dialects import Chat
from gateway.errors import Failure
from gateway.relay.intake import Intake
from support.cuts import chopped

EVENT = b'data: {"choices":[]}\n\n'


def intake(content_type: str, status: int = 200, **more: str) -> Intake:
    return Intake(httpx.Response(status, headers={"content-type": content_type, **more}), Chat(), 2**16)


def fed(taken: Intake, *pieces: bytes) -> bytes:
    found = [taken.feed(piece) for piece in pieces] + [taken.finish()]
    assert not any(isinstance(each, Failure) for each in found)
    return b"".join(each for each in found if isinstance(each, bytes))


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream", "application/json", "application/x-ndjson"])
@pytest.mark.parametrize("begins", [b"", b"\n", b"\xef\xbb\xbf", b": hello\n\n", b":\n\n", b"event: x\n", b"id: 1\n", b"retry: 5\n\n"])
def test_a_stream_under_another_name_is_a_stream_from_its_first_bytes(content_type: str, begins: bytes) -> None:
    assert intake(content_type).feed(begins + EVENT) == begins + EVENT


def test_a_stream_under_another_name_is_known_as_soon_as_its_field_is_whole() -> None:
    taken = intake("text/plain")
    assert [taken.feed(b"da"), taken.feed(b"ta"), taken.feed(b": 1\n\n"), taken.feed(EVENT)] == [b"", b"", b"data: 1\n\n", EVENT]


@pytest.mark.parametrize("body", [b'{"object":"list"}', b"<html>data: x</html>", b"data", b"error: no", b""])
def test_what_is_no_stream_is_refused_with_its_name(body: bytes) -> None:
    taken = intake("text/plain")
    assert taken.feed(body) == b""
    refused = taken.finish()
    assert isinstance(refused, Failure)
    assert refused.http_status >= 500


def test_an_error_status_is_no_stream_whatever_it_looks_like() -> None:
    taken = intake("text/event-stream", 503)
    assert taken.feed(EVENT) == b""
    refused = taken.finish()
    assert isinstance(refused, Failure)
    assert refused.http_status == 503


CODED = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstandard.compress}


@pytest.mark.parametrize("coding", CODED)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_a_compressed_stream_is_read_however_it_is_cut(coding: str, step: int) -> None:
    body = CODED[coding](EVENT * 3)
    assert fed(intake("text/event-stream", **{"content-encoding": coding}), *chopped(body, step)) == EVENT * 3


@pytest.mark.parametrize("coding", CODED)
@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("begins", [b"", b": hello\n\n", b"event: x\n", b"id: 1\n"])
def test_events_that_are_only_said_to_be_compressed_are_read(coding: str, step: int, begins: bytes) -> None:
    taken = intake("text/event-stream", **{"content-encoding": coding})
    assert fed(taken, *chopped(begins + EVENT, step)) == begins + EVENT
    assert taken.transparent


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_a_stream_that_is_not_said_to_be_compressed_is_read(step: int) -> None:
    assert fed(intake("text/event-stream"), *chopped(gzip.compress(EVENT), step)) == EVENT


def test_a_single_byte_is_not_lost() -> None:
    assert fed(intake("text/event-stream"), b"\n") == b"\n"


def test_what_is_neither_events_nor_what_it_is_said_to_be_is_a_failure() -> None:
    refused = intake("text/event-stream", **{"content-encoding": "gzip"}).feed(b"<html>")
    assert isinstance(refused, Failure)
    assert refused.code == "upstream_encoding"
