"""Content codings undone as the bytes come."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.coding import KNOWN, CodingError, Decompressor, codings
from support.cuts import chopped, cut, cuts

LIMIT = 2**20


def deflated(wbits: int) -> Callable[[list[bytes]], list[bytes]]:
    def encode(parts: list[bytes]) -> list[bytes]:
        state = zlib.compressobj(wbits=wbits)
        return [state.compress(part) + state.flush(zlib.Z_SYNC_FLUSH) for part in parts] + [state.flush()]

    return encode


def brotlied(parts: list[bytes]) -> list[bytes]:
    state = brotli.Compressor()
    return [state.process(part) + state.flush() for part in parts] + [state.finish()]


def zstandarded(parts: list[bytes]) -> list[bytes]:
    state = zstandard.ZstdCompressor().compressobj()
    return [state.compress(part) + state.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for part in parts] + [state.flush()]


# Coding -> encoder that flushes after each part, as a server that streams does.
CODINGS = {
    "gzip": (b"gzip", deflated(31)),
    "x-gzip": (b"x-gzip", deflated(31)),
    "deflate as it should be": (b"deflate", deflated(15)),
    "deflate as some send it": (b"deflate", deflated(-15)),
    "br": (b"br", brotlied),
    "zstd": (b"zstd", zstandarded),
}
EACH = pytest.mark.parametrize(("coding", "encode"), CODINGS.values(), ids=CODINGS.keys())
Encode = Callable[[list[bytes]], list[bytes]]


def test_every_known_coding_is_tried_here() -> None:
    assert {coding for coding, _ in CODINGS.values()} == KNOWN


@EACH
def test_each_part_comes_out_when_its_bytes_are_there(coding: bytes, encode: Encode) -> None:
    parts = [b"data: one\n\n", b"data: two\n\n", b"data: \xe6\xb5\x81\n\n"]
    state = Decompressor(coding, LIMIT)
    encoded = encode(parts)
    assert [state.feed(piece) for piece in encoded[:3]] == parts
    assert state.feed(encoded[3]) == b""


@EACH
@given(parts=st.lists(st.binary(max_size=60), max_size=4), places=cuts(300))
def test_where_the_bytes_are_cut_does_not_matter(coding: bytes, encode: Encode, parts: list[bytes], places: list[int]) -> None:
    state = Decompressor(coding, LIMIT)
    assert b"".join(state.feed(piece) for piece in cut(b"".join(encode(parts)), places)) == b"".join(parts)


@EACH
def test_bytes_one_by_one_come_out_whole(coding: bytes, encode: Encode) -> None:
    parts = [b"a" * 1000, bytes(range(256)) * 4]
    state = Decompressor(coding, LIMIT)
    assert b"".join(state.feed(piece) for piece in chopped(b"".join(encode(parts)), 1)) == b"".join(parts)


@EACH
def test_a_bomb_is_an_error_before_it_is_memory(coding: bytes, encode: Encode) -> None:
    bomb = b"".join(encode([bytes(2**20)] * 16))
    assert len(bomb) < 2**18
    with pytest.raises(CodingError, match="grows to more than 65536 bytes"):
        Decompressor(coding, 2**16).feed(bomb)


@EACH
def test_what_is_below_the_limit_passes(coding: bytes, encode: Encode) -> None:
    data = bytes(2**16)
    assert Decompressor(coding, 2**16).feed(b"".join(encode([data]))) == data


@EACH
def test_bytes_of_something_else_are_an_error_that_names_the_coding_only(coding: bytes, encode: Encode) -> None:
    with pytest.raises(CodingError) as caught:
        Decompressor(coding, LIMIT).feed(b"\xfe\xed secret text that is no such thing" * 40)
    assert coding.decode() in str(caught.value)
    assert "secret" not in str(caught.value)


@EACH
def test_damage_on_the_way_never_gives_other_text(coding: bytes, encode: Encode) -> None:
    """An error, or what came before the damage: nothing is made up that a later check would not notice."""
    text = b"".join(b"data: %d\n\n" % number for number in range(200))
    encoded = bytearray(b"".join(encode([text])))
    encoded[len(encoded) // 2] ^= 0xFF
    state = Decompressor(coding, LIMIT)
    try:
        out = b"".join(state.feed(piece) for piece in chopped(bytes(encoded), 16))
    except CodingError:
        return
    assert out != text


@pytest.mark.parametrize(("coding", "member"), [(b"gzip", gzip.compress), (b"zstd", zstandard.compress)])
@pytest.mark.parametrize("step", [1, 1000])
def test_several_members_one_after_the_other_are_all_read(coding: bytes, member: Callable[[bytes], bytes], step: int) -> None:
    """RFC 1952 and RFC 8878 allow it, and a server may close one with each flush."""
    state = Decompressor(coding, LIMIT)
    data = member(b"one ") + member(b"two ") + member(b"") + member(b"three")
    assert b"".join(state.feed(piece) for piece in chopped(data, step)) == b"one two three"


def test_an_unknown_coding_is_an_error() -> None:
    with pytest.raises(CodingError, match="x-new"):
        Decompressor(b"x-new", LIMIT)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, []),
        (b"", []),
        (b"identity", []),
        (b" GZip ", [b"gzip"]),
        (b"gzip, br", [b"gzip", b"br"]),
        (b"identity,, zstd", [b"zstd"]),
    ],
)
def test_codings_are_named_in_the_order_in_which_they_were_applied(value: bytes | None, expected: list[bytes]) -> None:
    assert codings(value) == expected
