"""Which header fields go on, and which end at the hop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire import headers

_NAMES = st.sampled_from(
    [
        b"Connection",
        b"Keep-Alive",
        b"TE",
        b"Trailer",
        b"Upgrade",
        b"Proxy-Authorization",
        b"X-Hop",
        b"X-Kept",
        b"Set-Cookie",
        b"Host",
        b"Vary",
    ]
)
_FIELDS = st.lists(st.tuples(_NAMES, st.sampled_from([b"1", b"x-hop", b"keep-alive, X-HOP", b""])), max_size=8)


@given(_FIELDS)
def test_only_hop_by_hop_fields_are_dropped_and_order_is_kept(fields: headers.Fields) -> None:
    kept = headers.end_to_end(fields)
    rest = iter(fields)
    assert all(field in rest for field in kept), "order"
    named = headers.listed_in_connection(fields)
    for field in fields:
        name = field[0].lower()
        assert (field in kept) == (name not in headers.HOP_BY_HOP and name not in named)


def test_names_listed_in_connection_are_dropped_in_any_spelling() -> None:
    fields = [
        (b"Connection", b"keep-alive, X-Internal"),
        (b"connection", b"x-Other ,"),
        (b"X-INTERNAL", b"1"),
        (b"x-other", b"2"),
        (b"x-kept", b"3"),
    ]
    assert headers.end_to_end(fields) == [(b"x-kept", b"3")]


def test_repeated_fields_stay_repeated() -> None:
    fields = [(b"Set-Cookie", b"a=1"), (b"Vary", b"x"), (b"Set-Cookie", b"b=2")]
    assert headers.end_to_end(fields) == fields


@pytest.mark.parametrize("name", [b"host", b"Content-Length", b"EXPECT", b"Accept-Encoding", b"Transfer-Encoding", b"Connection", b"TE"])
def test_what_the_gateway_sets_anew_is_not_taken_from_the_client(name: bytes) -> None:
    assert headers.to_upstream([(name, b"x"), (b"X-Stainless-Lang", b"python")]) == [(b"X-Stainless-Lang", b"python")]


def test_a_streams_head_says_what_proxies_need_and_keeps_the_rest() -> None:
    upstream = [
        (b"Content-Type", b"text/event-stream"),
        (b"Content-Length", b"10"),
        (b"Content-Encoding", b"gzip"),
        (b"ETag", b"x"),
        (b"Cache-Control", b"no-cache"),
        (b"X-Accel-Buffering", b"yes"),
        (b"Transfer-Encoding", b"chunked"),
        (b"x-ratelimit-remaining-tokens", b"99"),
        (b"OpenAI-Processing-MS", b"12"),
        (b"X-Request-Id", b"req_1"),
    ]
    assert headers.of_a_stream(upstream) == [
        *headers.STREAM_FIELDS,
        (b"x-ratelimit-remaining-tokens", b"99"),
        (b"OpenAI-Processing-MS", b"12"),
        (b"X-Request-Id", b"req_1"),
    ]


@pytest.mark.parametrize("value", [b"text/event-stream", b"Text/Event-Stream;Charset=UTF-8", b" text/event-stream ; x=y"])
def test_a_media_type_is_read_without_case_and_parameters(value: bytes) -> None:
    assert headers.media_type([(b"Content-Type", value)]) == b"text/event-stream"


def test_no_content_type_is_an_empty_media_type() -> None:
    assert headers.media_type([]) == b""
