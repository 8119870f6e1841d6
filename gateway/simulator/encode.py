"""Bytes and small parts that several dialects share: JSON, SSE frames, ids, padding, log-probabilities."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterable
from typing import Any, Final

import msgspec

Json = dict[str, Any]

_encoder: Final = msgspec.json.Encoder()
json_bytes: Final = _encoder.encode
# What padding is cut from: fixed, so that a stream's bytes depend on nothing but its text and ids.
_PADDING: Final = hashlib.sha256(b"padding").hexdigest() * 4
_PADDED_TO: Final = 16  # characters: deltas of one length reveal no word lengths


def sse(data: Any, event: str | None = None) -> bytes:
    """One event; `event` is its name where the dialect names its events."""
    head = b"event: %b\n" % event.encode() if event else b""
    return b"%bdata: %b\n\n" % (head, _encoder.encode(data))


def new_id(prefix: str) -> str:
    return prefix + secrets.token_hex(12)


def padding(text: str) -> str:
    """OpenAI's `obfuscation` for a delta of this text: 1 to 16 characters."""
    number = _PADDED_TO - len(text) % _PADDED_TO
    start = len(text) % 64
    return _PADDING[start : start + number]


def seal(text: str, size_bytes: int = 256) -> str:
    """What stands for a signature or encrypted reasoning: opaque to clients, the same for the same text, base64-like."""
    return base64.b64encode(hashlib.shake_256(text.encode()).digest(size_bytes)).decode()


def logprob(token: str) -> float:
    """A log-probability of a token: made up, the same each time, never positive."""
    return -(hashlib.sha256(token.encode()).digest()[0] + 1) / 64


def logprobs(tokens: Iterable[str]) -> list[Json]:
    """As chat completions and Responses carry them."""
    return [{"token": t, "logprob": logprob(t), "bytes": list(t.encode()), "top_logprobs": []} for t in tokens]
