"""Content codings undone piece by piece, so that each event is seen when its compressed bytes come. Bounded: a bomb is an error.

brotli and zstandard are imported when a body needs them, which is against our `accept-encoding: identity` and so hardly ever.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

KNOWN: Final = frozenset({b"gzip", b"x-gzip", b"deflate", b"br", b"zstd"})
CODINGS_AT_MOST: Final = 4  # one in another: nobody applies more than one, and each costs a pass over up to the whole limit
MEMBERS_AT_MOST: Final = 1024  # of gzip in one call: each costs a copy of what follows, so that empty ones were a bomb of time
_SLICE_BYTES: Final = 64 * 1024  # of which those copies are


class CodingError(Exception):
    """The bytes are not what their content-encoding says, or come to more than is allowed. The message names the coding only."""


class Decompressor:
    """Undoes one content coding (`coding` in lower case, one of KNOWN). `limit_bytes`: the most that one call may give."""

    def __init__(self, coding: bytes, limit_bytes: int) -> None:
        self._coding = coding.decode("latin-1")
        self._limit_bytes = limit_bytes
        self._decode = _decoder(coding)

    def feed(self, data: bytes) -> bytes:
        try:
            out = self._decode(data, self._limit_bytes)
        except CodingError:
            raise
        except Exception as error:  # zlib.error, brotli.error, ZstdError: three libraries, one meaning
            raise CodingError(f"the body is not valid {self._coding}") from error
        if len(out) > self._limit_bytes:
            raise CodingError(f"the {self._coding} body grows to more than {self._limit_bytes} bytes at once")
        return out


def codings(value: bytes | None) -> list[bytes]:
    """The codings of a Content-Encoding field, in the order in which they were applied; identity left out."""
    named = (part.strip().lower() for part in (value or b"").split(b","))
    found = [coding for coding in named if coding and coding != b"identity"]
    return found if len(found) <= CODINGS_AT_MOST else [b"more than %d codings" % CODINGS_AT_MOST]  # which is one that is not known


def _decoder(coding: bytes) -> Callable[[bytes, int], bytes]:
    if coding in (b"gzip", b"x-gzip"):
        return _zlib(16 + zlib.MAX_WBITS)
    if coding == b"deflate":
        return _deflate()
    if coding == b"br":
        return _brotli()
    if coding == b"zstd":
        return _zstd()
    raise CodingError(f"unknown content coding {coding.decode('latin-1')}")


def _zlib(wbits: int) -> Callable[[bytes, int], bytes]:
    state: Any = zlib.decompressobj(wbits)

    def decode(data: bytes, limit: int) -> bytes:
        nonlocal state
        parts: list[bytes] = []
        left, members = limit + 1, 0
        for at in range(0, len(data), _SLICE_BYTES):
            rest = data[at : at + _SLICE_BYTES] if len(data) > _SLICE_BYTES else data
            while rest and left > 0:
                parts.append(state.decompress(rest, left))
                left -= len(parts[-1])
                rest = state.unused_data if wbits > zlib.MAX_WBITS else b""  # gzip: another member (RFC 1952, section 2.2)
                if rest:
                    members += 1
                    if members > MEMBERS_AT_MOST:
                        raise CodingError(f"the gzip body has more than {MEMBERS_AT_MOST} members at once")
                    state = zlib.decompressobj(wbits)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    return decode


def _deflate() -> Callable[[bytes, int], bytes]:
    """zlib's format, as RFC 9110 says, or the bare one that some servers send: the first byte tells."""
    inner: Callable[[bytes, int], bytes] | None = None

    def decode(data: bytes, limit: int) -> bytes:
        nonlocal inner
        if inner is None and data:
            inner = _zlib(zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS)
        return inner(data, limit) if inner is not None else b""

    return decode


def _brotli() -> Callable[[bytes, int], bytes]:
    import brotli

    state = brotli.Decompressor()

    def decode(data: bytes, limit: int) -> bytes:
        out: bytes = state.process(data, output_buffer_limit=limit + 1)
        return out

    return decode


def _zstd() -> Callable[[bytes, int], bytes]:
    import zstandard

    # RFC 9659: 8 MiB, which is also what a stream holds in memory.
    state = zstandard.ZstdDecompressor(max_window_size=2**23).decompressobj(read_across_frames=True)

    def decode(data: bytes, limit: int) -> bytes:
        # No bound can be given to this call; a frame's blocks hold 128 KiB at most each, 3 bytes of input the least.
        if len(data) * (2**17 // 3) > limit:
            parts, total = [], 0
            for at in range(0, len(data), 64):
                parts.append(state.decompress(data[at : at + 64]))
                total += len(parts[-1])
                if total > limit:
                    break
            return b"".join(parts)
        return state.decompress(data)

    return decode
