"""Content codings undone piece by piece, so that each event is seen when its compressed bytes come. Bounded: a bomb is an error.

brotli and zstandard are imported when a body needs them, which is against our `accept-encoding: identity` and so hardly ever.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

KNOWN: Final = frozenset({b"gzip", b"x-gzip", b"deflate", b"br", b"zstd"})


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
    return [coding for coding in named if coding and coding != b"identity"]


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
        out: bytes = state.decompress(data, limit + 1)
        while state.unused_data and wbits > zlib.MAX_WBITS and len(out) <= limit:  # gzip: another member (RFC 1952, section 2.2)
            rest = state.unused_data
            state = zlib.decompressobj(wbits)
            out += state.decompress(rest, limit + 1)
        return out

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

    state = zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj(read_across_frames=True)

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
