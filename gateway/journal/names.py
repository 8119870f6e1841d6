"""Under which name a stream is kept: digests of who asks and by which key, so that neither stands anywhere.

The credential is part of the name: a stream cannot be found by another's key, nor told from one that does not exist.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from gateway.wire.headers import Fields

_CREDENTIALS: Final = (b"authorization", b"x-api-key", b"api-key", b"openai-organization", b"openai-project")


def credential_of(fields: Fields) -> bytes:
    """A digest of what identifies the caller to the upstream."""
    return _digest(b"credential", *(value for name in _CREDENTIALS for field, value in fields if field.lower() == name))


def stream_name(credential: bytes, path: bytes, key: bytes) -> str:
    return _digest(b"stream", credential, path, key).hex()


def response_name(credential: bytes, response_id: bytes) -> str:
    return _digest(b"response", credential, response_id).hex()


def fingerprint_of(parts: Iterable[bytes]) -> str:
    """Of a request: whether a second one asks for the same."""
    return _digest(b"request", *parts).hex()


def _digest(kind: bytes, *parts: bytes) -> bytes:
    """Each part with its length, so that two lists never read alike."""
    made = hashlib.sha256(b"decluster:" + kind)
    for part in parts:
        made.update(b"%d:" % len(part))
        made.update(part)
    return made.digest()
