"""Embeddings: unit vectors, the same for the same input, as floats or base64 of little-endian 32-bit floats."""

from __future__ import annotations

import base64
import math
import random
import struct
from typing import Any, Final

from gateway.simulator.ask import invalid, prompt_tokens
from gateway.simulator.encode import Json, json_bytes

MODEL: Final = "text-embedding-3-small"
_DIMENSIONS: Final = 1536  # of that model
_MOST_INPUTS: Final = 2048  # as OpenAI


def answer(body: Json) -> Json:
    """The response object of a request. Raises Rejected."""
    given = body.get("input")
    inputs: list[Any] = [given] if isinstance(given, str) or _is_tokens(given) else given if isinstance(given, list) else []
    if not 0 < len(inputs) <= _MOST_INPUTS:
        raise invalid(f"'input' has to be a string or an array of 1 to {_MOST_INPUTS} inputs", "input")
    size = _DIMENSIONS if body.get("dimensions") is None else body["dimensions"]
    if not isinstance(size, int) or not 0 < size <= _DIMENSIONS:
        raise invalid(f"'dimensions' has to be between 1 and {_DIMENSIONS}", "dimensions")
    form = body.get("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise invalid("'encoding_format' has to be 'float' or 'base64'", "encoding_format")
    data: list[Json] = []
    for index, item in enumerate(inputs):
        floats = struct.pack(f"<{size}f", *vector(item, size))
        embedding = base64.b64encode(floats).decode() if form == "base64" else struct.unpack(f"<{size}f", floats)
        data.append({"object": "embedding", "index": index, "embedding": embedding})
    number = prompt_tokens(body)
    return {"object": "list", "data": data, "model": body["model"], "usage": {"prompt_tokens": number, "total_tokens": number}}


def vector(item: Any, size: int) -> list[float]:
    chance = random.Random(json_bytes(item))  # noqa: S311 - a made-up vector, not a secret
    raw = [chance.gauss(0, 1) for _ in range(size)]
    length = math.hypot(*raw)
    return [x / length for x in raw]


def _is_tokens(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(item, int) for item in given)
