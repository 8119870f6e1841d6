"""What is no stream of ours passes as it is, byte for byte, in both directions."""

from __future__ import annotations

import asyncio
import gzip
import json as jsonlib

import pytest

from support import plays
from support.chunks import words
from support.client import Client, ask, chat_body, head
from support.gateway import serving, settings_for
from support.plays import Play, Write, sse
from support.upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

OK = plays.json(b'{"ok":true}')
BINARY = bytes(range(256)) * 64


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_method_path_query_and_body_arrive_as_they_were_sent(method: str) -> None:
    target = "/v1/files/f%2F1%20x/content?purpose=x&purpose=y&q=a%26b+c&empty=&flag"
    body = b'{"a": 1.50}' if method in ("POST", "PUT", "PATCH") else None
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, method, target, body, [("content-type", "application/json")])
        assert (answer.status, answer.body, answer.whole) == (200, b'{"ok":true}', True)
        [attempt] = upstream.attempts
        assert (attempt.method, attempt.target, bytes(attempt.body)) == (method, target, body or b"")
        assert attempt.named(b"content-length") == ([] if body is None else [str(len(body)).encode()])
        assert not attempt.named(b"transfer-encoding")


@pytest.mark.parametrize(
    "target",
    ["/v1/models/org/model:free", "/v1/models/a%3Ab", "/v1/models/%E2%82%AC", "/v1/batches", "/v1/x?", "/v1/a;b=c/d,e", "/v1/a//b"],
)
async def test_paths_are_not_rewritten(target: str) -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        assert (await ask(gateway.port, "GET", target)).status == 200
        assert upstream.attempts[0].target in (target, target.removesuffix("?"))


async def test_a_head_request_gets_the_length_and_no_body() -> None:
    play = Play((Write(b"x" * 100),), fields=((b"content-type", b"audio/mpeg"), (b"content-length", b"100")))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.ask("HEAD", "/v1/files/f/content")
            answer = await client.ended()
            assert (answer.status, answer.header("content-length"), answer.body, answer.whole) == (200, "100", b"", True)
            client.ask("HEAD", "/v1/files/f/content")
            assert (await client.ended()).status == 200  # the connection is in order
        assert upstream.attempts[0].method == "HEAD"


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_none(status: int) -> None:
    play = Play(status=status, fields=((b"etag", b'"x"'),), framing="none")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        client.ask("DELETE", "/v1/files/f")
        answer = await client.ended()
        assert (answer.status, answer.body, answer.whole) == (status, b"", True)
        assert answer.header("etag") == '"x"'
        client.ask("GET", "/v1/models")
        assert (await client.ended()).status == status


async def test_a_range_is_asked_for_and_answered() -> None:
    fields = ((b"content-type", b"application/octet-stream"), (b"content-range", b"bytes 10-19/100"), (b"accept-ranges", b"bytes"))
    async with ScriptedUpstream(Play((Write(b"0123456789"),), 206, fields, framing="length")) as upstream:
        async with serving(settings_for(upstream.url)) as gateway:
            answer = await ask(gateway.port, "GET", "/v1/files/f/content", headers=[("range", "bytes=10-19")])
        assert upstream.attempts[0].named(b"range") == [b"bytes=10-19"]
    assert (answer.status, answer.body) == (206, b"0123456789")
    assert (answer.header("content-range"), answer.header("accept-ranges")) == ("bytes 10-19/100", "bytes")


@pytest.mark.parametrize("framing", ["chunked", "length", "eof"])
async def test_binary_answers_keep_every_byte_however_they_are_framed(framing: str) -> None:
    pieces = tuple(Write(BINARY[at : at + 5000]) for at in range(0, len(BINARY), 5000))
    play = Play(pieces, fields=((b"content-type", b"audio/mpeg"),), framing=framing)  # type: ignore[arg-type]
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", "/v1/audio/speech", b"{}")
    assert (answer.body, answer.whole, answer.header("content-type")) == (BINARY, True, "audio/mpeg")


async def test_a_compressed_answer_that_was_asked_for_passes_compressed() -> None:
    body = gzip.compress(b'{"data":[]}' * 50)
    play = plays.json(body, 200, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "GET", "/v1/embeddings", headers=[("accept-encoding", "br, gzip;q=0.5")])
        assert upstream.attempts[0].named(b"accept-encoding") == [b"br, gzip;q=0.5"]
    assert (answer.body, answer.header("content-encoding"), answer.header("vary")) == (body, "gzip", "accept-encoding")


async def test_multipart_uploads_keep_every_byte() -> None:
    body = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + BINARY + b"\r\n--b--\r\n"
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", "/v1/audio/transcriptions", body, [("content-type", "multipart/form-data; boundary=b")])
        assert answer.status == 200
        assert bytes(upstream.attempts[0].body) == body
        assert upstream.attempts[0].named(b"content-type") == [b"multipart/form-data; boundary=b"]


async def test_an_upload_in_chunks_arrives_in_chunks() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        client.expect()
        client.write(head("POST", "/v1/files", [("transfer-encoding", "chunked")]) + b"5\r\nhello\r\n")
        attempt = await upstream.asked()
        await upstream.until(lambda: bytes(attempt.body) == b"hello")
        client.write(b"6\r\n world\r\n0\r\n\r\n")
        assert (await client.ended()).status == 200
        assert bytes(attempt.body) == b"hello world"
        assert attempt.named(b"transfer-encoding") == [b"chunked"]


async def test_a_large_upload_is_streamed_and_not_gathered() -> None:
    """The upstream has the beginning before the client has sent the end, and the gateway holds next to nothing of it."""
    size, piece = 24 * 2**20, bytes(2**16)
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        client.expect()
        client.write(head("POST", "/v1/files", [("content-length", str(size))]))
        attempt = await upstream.asked()
        sent = most_held = 0
        while sent < size:
            client.write(piece)
            sent += len(piece)
            await client.drained()
            in_the_gateway = sent - client.unsent_bytes - len(attempt.body)
            most_held = max(most_held, in_the_gateway)
        assert (await client.ended()).status == 200
        assert len(attempt.body) == size
    assert most_held < size // 2, "kernel buffers hold some megabytes; what is gathered would be all of it"


async def test_an_upload_waits_while_the_upstream_does_not_read() -> None:
    size, piece = 64 * 2**20, bytes(2**18)
    async with ScriptedUpstream(OK, reads=False) as upstream, serving(settings_for(upstream.url)) as gateway:
        async with await Client.to(gateway.port) as client:
            client.expect()
            client.write(head("POST", "/v1/files", [("content-length", str(size))]))
            written = 0
            while written < size and client.unsent_bytes < 2**20:  # until the sockets between are full
                client.write(piece)
                written += len(piece)
                await asyncio.sleep(0.002)
            assert written < size, "the whole upload was taken in although nobody reads it"
            upstream.reading.set()
            client.write(bytes(size - written))
            assert (await client.ended()).status == 200
            assert len(upstream.attempts[0].body) == size


async def test_expect_100_is_answered_here_and_not_passed_on() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        client.expect()
        client.write(head("POST", "/v1/files", [("expect", "100-continue")], 5))
        await client.until(lambda answer: 100 in answer.interim)
        client.write(b"hello")
        assert (await client.ended()).status == 200
        assert not upstream.attempts[0].named(b"expect")
        assert bytes(upstream.attempts[0].body) == b"hello"


@pytest.mark.parametrize("status", [400, 401, 404, 413, 429, 500, 503, 524])
async def test_errors_of_the_upstream_are_its_own_status_and_all(status: int) -> None:
    body = b'{"error": {"message": "x", "n": 1.50}}'
    play = plays.json(body, status, (b"retry-after", b"7"), (b"x-ratelimit-remaining", b"0"))
    for streamed in (True, False):
        async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
            answer = await ask(gateway.port, body=chat_body(stream=streamed))
            assert (answer.status, answer.body, answer.whole) == (status, body, True)
            assert (answer.header("retry-after"), answer.header("x-ratelimit-remaining")) == ("7", "0")
            assert len(upstream.attempts) == 1


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_is_cut_is_not_ended_properly(status: int, streamed: bool) -> None:
    play = Play((Write(b'{"error":"'),), status, plays.JSON, end="reset")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=streamed))
        if streamed and status == 200:  # gathered, as no stream came
            assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_reset")
        else:
            assert (answer.status, answer.whole) == (status, False)
        await gateway.idle()
        assert gateway.metric("decluster_upstream_attempts_total", outcome="ok") == 0


async def test_a_list_of_models_that_is_cut_is_an_error() -> None:
    play = Play((Write(b'{"data":['),), 200, plays.JSON, end="reset")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "GET", "/v1/models")
    assert (answer.status, answer.json()["error"]["code"], answer.whole) == (502, "upstream_reset", True)


async def test_an_event_stream_of_an_unknown_path_that_says_nothing_ends_as_silent() -> None:
    parts = {"clocks": {"silence": 0.3}, "heartbeat": {"every": 3600}}  # no other clock rings before that one
    play = Play(end="hang")
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url, **parts)) as gateway:
        answer = await ask(gateway.port, "POST", "/v1/audio/speech", b'{"stream_format":"sse"}')
        assert (answer.status, answer.whole) == (200, True)
        assert b"upstream_silent" in answer.body


async def test_event_streams_of_unknown_paths_pass_event_by_event() -> None:
    body = b'event: speech\ndata: {"a": 1.0}\n\n: comment\n\ndata: [DONE]\n\n'
    async with ScriptedUpstream(Play((Write(body),))) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, "POST", "/v1/audio/speech", b'{"stream_format":"sse"}')
    assert answer.header("x-accel-buffering") == "no"
    assert answer.body == b'event: speech\ndata: {"a": 1.0}\n\ndata: [DONE]\n\n'
    assert answer.whole


async def test_a_completion_that_was_not_to_be_streamed_passes_untouched() -> None:
    body = b'{"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": "a\\u00e9"}, "n": 1.50}]}'
    async with ScriptedUpstream(plays.json(body)) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False))
        assert bytes(upstream.attempts[0].body) == chat_body(stream=False)
    assert (answer.body, answer.header("content-type")) == (body, "application/json")


async def test_a_stream_that_was_not_asked_for_becomes_one_answer() -> None:
    async with ScriptedUpstream(plays.events(*words("one ", "two"))) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False))
    assert answer.header("content-type") == "application/json"
    assert answer.header("content-length") == str(len(answer.body))
    assert answer.json()["choices"][0]["message"]["content"] == "one two"


async def test_a_stream_that_was_not_asked_for_and_was_cut_is_an_error() -> None:
    play = Play((Write(sse(words("one ", "two")[:2])),))
    async with ScriptedUpstream(play) as upstream, serving(settings_for(upstream.url)) as gateway:
        answer = await ask(gateway.port, body=chat_body(stream=False))
    assert (answer.status, answer.json()["error"]["code"]) == (502, "upstream_incomplete")


async def test_bodies_that_are_no_json_are_the_upstreams_to_judge() -> None:
    for body in (
        b"",
        b"[]",
        b"not json",
        b"\xff\xfe",
        b'{"stream":"yes"}',
        b'{"stream":1}',
        b'{"messages":' + b"[" * 3000 + b"]" * 3000 + b"}",
    ):
        async with (
            ScriptedUpstream(plays.json(b'{"error":{"message":"bad"}}', 400)) as upstream,
            serving(settings_for(upstream.url)) as gateway,
        ):
            answer = await ask(gateway.port, body=body)
            assert answer.status == 400
            assert jsonlib.loads(answer.body)["error"]["message"] == "bad"
            assert bytes(upstream.attempts[0].body) == body


async def test_many_requests_share_one_connection_to_the_upstream() -> None:
    async with ScriptedUpstream(OK) as upstream, serving(settings_for(upstream.url)) as gateway, await Client.to(gateway.port) as client:
        for _ in range(5):
            client.ask("GET", "/v1/models")
            assert (await client.ended()).whole
        assert (len(upstream.attempts), upstream.connections) == (5, 1)
