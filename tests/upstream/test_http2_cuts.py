"""The law of the wire for HTTP/2: where the bytes of a connection are cut into reads does not matter. No socket: hypothesis cuts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import httpx
import pytest
from hpack import Decoder, Encoder
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.upstream.frames import BadFrame, Reader, end_of, payload
from gateway.upstream.http2 import SharedConnection
from gateway.upstream.literal import Literally
from gateway.upstream.pool import Pool
from gateway.upstream.request import encode
from gateway.upstream.sharing import Sharing
from gateway.upstream.watch import Watch

from .http2_servers import frame
from .readers import Recorder, body_of
from .test_cuts import FakeSocket

Pieces = list[bytes]


def cut(data: bytes, cuts: Iterable[int]) -> Pieces:
    places = sorted({place % len(data) for place in cuts} - {0}) if data else []
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


class Inlet:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.whole = b""


def read(pieces: Pieces, numbers: Iterable[int]) -> tuple[dict[int, bytes], list[object]]:
    """Payloads by stream, and the other frames, each with what had come of its stream by then."""
    reader: Reader[Inlet] = Reader()
    reader.inlets.update({number: Inlet() for number in numbers})
    others: list[object] = []
    try:
        for piece in pieces:
            for kind, flags, number, whole in reader.feed(piece):
                inlet = reader.inlets.get(number)
                others.append((kind, flags, number, whole, inlet and inlet.whole + b"".join(inlet.parts)))
            assert len(reader.touched) == len({id(inlet) for inlet in reader.touched if inlet.parts})
            for inlet in reader.touched:
                inlet.whole += b"".join(inlet.parts)
                inlet.parts.clear()
            reader.touched.clear()
    except BadFrame as problem:
        others.append(problem.code)
    return {number: inlet.whole + b"".join(inlet.parts) for number, inlet in reader.inlets.items()}, others


payloads = st.binary(max_size=40)
frames = st.one_of(
    st.builds(lambda n, data: frame(0, 0, n, data), st.sampled_from([1, 3, 5]), payloads),
    st.builds(lambda n, data: frame(0, 1, n, data), st.sampled_from([1, 3, 5]), payloads),
    st.builds(lambda n, data, pad: frame(0, 8, n, bytes((pad,)) + data + bytes(pad)), st.sampled_from([1, 3]), payloads, st.integers(0, 9)),
    st.builds(lambda kind, flags, data: frame(kind, flags, 1, data), st.sampled_from([2, 3, 6, 7, 8, 99]), st.integers(0, 255), payloads),
    st.builds(lambda flags, data: frame(1, flags, 1, data), st.sampled_from([4, 5, 0]), payloads),
    st.builds(lambda flags, data: frame(9, flags, 1, data), st.sampled_from([4, 0]), payloads),
)


@given(st.lists(frames, max_size=30).map(b"".join), st.sets(st.integers(0, 3000), max_size=40))
def test_frames_are_the_same_wherever_the_bytes_are_cut(data: bytes, cuts: set[int]) -> None:
    assert read(cut(data, cuts), [1, 3]) == read([data], [1, 3])


@given(st.lists(st.tuples(st.sampled_from([1, 3, 5, 7]), payloads), max_size=40), st.sets(st.integers(0, 3000), max_size=40))
def test_payloads_come_once_and_in_order(sent: list[tuple[int, bytes]], cuts: set[int]) -> None:
    data = b"".join(frame(0, 0, number, body) for number, body in sent) + frame(0, 1, 1, b"end")
    got, others = read(cut(data, cuts), [1, 3, 5, 7])
    for number in (3, 5, 7):
        assert got[number] == b"".join(body for to, body in sent if to == number)
    assert others == [(0, 1, 1, end_of(1), got[1])]


@given(st.binary(max_size=300), st.sets(st.integers(0, 300), max_size=10))
def test_any_bytes_are_frames_or_none(data: bytes, cuts: set[int]) -> None:
    assert read(cut(data, cuts), [1]) == read([data], [1])


def test_a_stream_removed_in_the_middle_of_a_payload_gets_no_more_of_it_and_the_rest_is_counted() -> None:
    reader: Reader[Inlet] = Reader()
    inlet = reader.inlets[1] = Inlet()
    data = frame(0, 0, 1, b"0123456789") + frame(0, 0, 3, b"x")
    assert list(reader.feed(data[:13])) == []
    del reader.inlets[1]
    assert list(reader.feed(data[13:])) == [(0, 0, 3, frame(0, 0, 3, b"x"))]
    assert (inlet.parts, reader.skipped_bytes) == ([b"0123"], 6)


@given(payloads, st.integers(0, 255), st.integers(0, 300))
@example(b"", 0, 0)
def test_padding_is_taken_off_or_refused(body: bytes, said: int, there: int) -> None:
    whole = frame(0, 8, 1, bytes((said,)) + body + bytes(there))
    if said > len(body) + there:
        with pytest.raises(BadFrame):
            payload(whole, 8)
    else:
        assert payload(whole, 8) == (body + bytes(there))[: len(body) + there - said]


names = st.from_regex(rb"[a-z][a-z0-9-]{0,200}", fullmatch=True)
values = st.binary(max_size=400) | st.integers(100, 20_000).map(lambda size: b"v" * size)


@given(st.lists(st.lists(st.tuples(names | st.just(b"authorization"), values), max_size=12), min_size=1, max_size=3))
def test_every_block_of_literals_is_read_by_others_as_it_was_meant(blocks: list[list[tuple[bytes, bytes]]]) -> None:
    ours, theirs = Literally(), Decoder(max_header_list_size=2**24)
    theirs.max_allowed_table_size = 0
    for fields in blocks:
        assert [tuple(field) for field in theirs.decode(ours.encode(fields), raw=True)] == fields


# The whole connection.


def answer(number: int, head: Encoder) -> list[bytes]:
    """Frames of one good answer."""
    block = head.encode([(b":status", b"200"), (b"x-number", b"%d" % number)])
    events = [b"data: %d/%d \xf0\x9f\x8c\x8d\n\n" % (number, index) for index in range(6)]
    return [
        frame(1, 0, number, block[:3]) + frame(9, 4, number, block[3:]),
        *[frame(0, 0, number, event) for event in events],
        frame(0, 8, number, b"\3padded" + bytes(3)),
        frame(0, 1, number, b"last" if number % 4 == 1 else b""),
    ]


def conversation() -> bytes:
    head = Encoder()
    first, second = answer(1, head), answer(3, head)
    mixed = [part for pair in zip(first, second, strict=True) for part in pair]
    mixed.insert(7, frame(6, 0, 0, b"12345678") + frame(8, 0, 0, b"\0\0\1\0") + frame(0xCC, 0, 3, b"?"))
    mixed.insert(9, frame(3, 0, 5, b"\0\0\0\2"))
    return frame(4, 0, 0) + frame(4, 1, 0) + b"".join(mixed)


Outcome = tuple[object, ...]


async def outcome(pieces: Pieces, pushed: bool) -> list[Outcome]:
    """What three readers get of a connection on which these pieces come."""
    loop = asyncio.get_running_loop()
    pool = Pool(loop, loop.time, 10, 60)
    sharing = Sharing(loop, loop.time, pool, 10, lambda connection: Watch(connection, loop, loop.time, 60, 60, 60))
    connection = SharedConnection(("http", "upstream.test", 80), sharing, loop, 4096, 65536, 65536)
    connection.connection_made(FakeSocket())

    async def one() -> Outcome:
        request = httpx.Request("POST", "http://upstream.test/", content=b"{}")
        sink = Recorder()
        try:
            response = await connection.exchange(encode(request), request, None, None)
        except httpx.HTTPError as error:
            return type(error).__name__, str(error)
        if pushed:
            body_of(response).attach(sink)
            await sink.until_end()
        else:
            try:
                async for piece in body_of(response):
                    sink.data(piece)
            except httpx.HTTPError as error:
                sink.error = error
        return response.status_code, response.headers.raw, sink.bytes, str(sink.error)

    readers = [asyncio.create_task(one()) for _ in range(3)]
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
        await asyncio.sleep(0)
    connection.eof_received()
    outcomes = await asyncio.wait_for(asyncio.gather(*readers), 10)
    connection.connection_lost(None)
    return outcomes


def run(pieces: Pieces, pushed: bool) -> list[Outcome]:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(outcome(pieces, pushed))
    finally:
        loop.close()


def test_what_the_conversation_comes_to() -> None:
    first, second, third = run([conversation()], True)
    assert first[0] == second[0] == 200
    assert first[2] == b"".join(b"data: 1/%d \xf0\x9f\x8c\x8d\n\n" % index for index in range(6)) + b"paddedlast"
    assert second[2] == b"".join(b"data: 3/%d \xf0\x9f\x8c\x8d\n\n" % index for index in range(6)) + b"padded"
    assert first[3] == second[3] == "None"
    assert third == ("ReadError", "the upstream reset the stream (INTERNAL_ERROR)")


@pytest.mark.parametrize("pushed", [True, False])
@given(cuts=st.sets(st.integers(0, 2000), max_size=60), end=st.integers(0, 2000))
def test_cutting_the_connections_bytes_anywhere_changes_nothing(pushed: bool, cuts: set[int], end: int) -> None:
    data = conversation()
    data = data[: max(len(data) - end % 400, 1)]  # and wherever it ends
    assert run(cut(data, cuts), pushed) == run([data], True)


@pytest.mark.parametrize("pushed", [True, False])
def test_byte_by_byte_is_what_it_is_at_once(pushed: bool) -> None:
    data = conversation()
    assert run([data[at : at + 1] for at in range(len(data))], pushed) == run([data], True)
