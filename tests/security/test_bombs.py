"""Small bytes that become large, in memory or in time: of clients and of upstreams."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Final

import brotli
import pytest
import zstandard

from gateway.wire.coding import CODINGS_AT_MOST, MEMBERS_AT_MOST, CodingError, Decompressor, codings
from support import plays
from support.client import CHAT, ask, chat_body
from support.gateway import serving, settings_for
from support.plays import SSE, Play, Write
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

OK: Final = plays.json(b'{"ok":true}')
LIMIT: Final = 2**16


def windowed(data: bytes) -> bytes:
    """Of zstd, for which whoever reads must hold 128 MiB."""
    compressor = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=27)).compressobj()
    return compressor.compress(data) + compressor.flush()


BOMBS: Final[dict[str, tuple[bytes, Callable[[], bytes]]]] = {
    "gzip": (b"gzip", lambda: gzip.compress(bytes(2**24))),
    "deflate": (b"deflate", lambda: zlib.compress(bytes(2**24))),
    "br": (b"br", lambda: brotli.compress(bytes(2**24), quality=5)),
    "zstd": (b"zstd", lambda: zstandard.compress(bytes(2**24))),
    "gzip in gzip": (b"gzip, gzip", lambda: gzip.compress(gzip.compress(bytes(2**24)))),
    "many members": (b"gzip", lambda: gzip.compress(b"") * (2 * MEMBERS_AT_MOST)),
    "a large window": (b"zstd", lambda: windowed(b"{}")),
}


@pytest.mark.parametrize("name", BOMBS)
async def test_a_request_that_is_a_bomb_is_refused(name: str) -> None:
    coding, made = BOMBS[name]
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url, limits={"request_bytes": LIMIT})) as gateway:
        headers = [("content-type", "application/json"), ("content-encoding", coding.decode())]
        answer = await ask(gateway.port, body=made(), headers=headers)
        assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_request")
        assert upstream.attempts == []


async def test_codings_without_end_are_refused() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, body=b"x", headers=[("content-encoding", "gzip," * 5000)])
        assert (answer.status, answer.json()["error"]["code"]) == (415, "unsupported_encoding")
        assert upstream.attempts == []
    assert len(codings(b"gzip," * CODINGS_AT_MOST)) == CODINGS_AT_MOST


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", BOMBS)
async def test_an_answer_that_is_a_bomb_is_a_502(name: str, stream: bool) -> None:
    """Where the gateway reads it: a stream, or a stream that came where none was asked for."""
    coding, made = BOMBS[name]
    bomb = Play((Write(made()),), fields=(*SSE, (b"content-encoding", coding)))
    async with ScriptedUpstream(bomb) as upstream, serving(settings_for(upstream.url, limits={"event_bytes": LIMIT})) as gateway:
        answer = await ask(gateway.port, target=CHAT, body=chat_body(stream))
        assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_encoding")


async def test_what_only_passes_is_not_unpacked() -> None:
    packed = gzip.compress(bytes(2**24))
    async with ScriptedUpstream(plays.json(packed, 200, (b"content-encoding", b"gzip"))) as upstream:
        async with serving(settings_for(upstream.url, limits={"event_bytes": LIMIT})) as gateway:
            assert (await ask(gateway.port, "GET", "/v1/files/f/content")).body == packed


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_no_single_read_gives_more_than_the_limit(coding: bytes) -> None:
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstandard.compress}[coding.decode()](
        bytes(2**22)
    )
    decompressor = Decompressor(coding, LIMIT)
    with pytest.raises(CodingError):
        decompressor.feed(packed)


@pytest.mark.parametrize("opener", [b"[", b'{"a":'])
@pytest.mark.parametrize("member", [b'"model"', b'"stream_options"', b'"extra_body"', b'"n"', b'"messages"'])
async def test_deep_nesting_is_no_fault(opener: bytes, member: bytes) -> None:
    body = b'{"model":"m-test",' + member + b":" + opener * 50_000
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert (await ask(gateway.port, body=body)).status in (200, 400)
        assert (await ask(gateway.port, body=body + b"0" + {b"[": b"]", b'{"a":': b"}"}[opener] * 50_000 + b"}")).status in (200, 400)


async def test_deep_nesting_in_an_answer_is_its_streams_end() -> None:
    for data in (b"[" * 50_000, b'{"a":' * 50_000, b'{"choices":[{"delta":' + b"[" * 50_000):
        async with ScriptedUpstream(plays.events(data)) as upstream, serving(settings_for(upstream.url)) as gateway:
            answer = await ask(gateway.port, body=chat_body())
            assert answer.status == 502
            assert json.loads(answer.body)["error"]["code"].startswith("upstream_")


@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_an_event_without_end_is_not_kept(end: bytes) -> None:
    """Nor are lines without end of an event."""
    part = b"data: " + b"x" * 1000 + end
    async with ScriptedUpstream(Play(tuple(Write(part) for _ in range(200)), end="hang")) as upstream:
        async with serving(settings_for(upstream.url, limits={"event_bytes": LIMIT})) as gateway:
            answer = await ask(gateway.port, body=chat_body())
            assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_event_too_large")
