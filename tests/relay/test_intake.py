"""What the bytes of an upstream's answer are taken for."""

from __future__ import annotations

import httpx
import pytest

from gateway.dialects import Chat
from gateway.errors import Failure
from gateway.relay.intake import Intake

EVENT = b'data: {"choices":[]}\n\n'


def intake(content_type: str, status: int = 200) -> Intake:
    return Intake(httpx.Response(status, headers={"content-type": content_type}), Chat(), 2**16)


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream", "application/json", "application/x-ndjson"])
@pytest.mark.parametrize("begins", [b"", b"\n", b"\xef\xbb\xbf", b": hello\n\n", b"event: x\n"])
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
