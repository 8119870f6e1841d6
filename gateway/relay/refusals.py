"""The body of an upstream's refusal, read whole before it is decided what follows: to see what it says, and to pass it on unchanged.

Bounded in bytes and time. What cannot be read so is let go of, and is nobody's answer any more.
"""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

REFUSAL_BYTES: Final = 64 * 1024  # as much as one read; error pages have a few KiB
REFUSAL_S: Final = 2.0  # for what a server sends right behind its head


async def held(response: httpx.Response) -> tuple[httpx.Response, bytes] | None:
    """The same answer with its body in memory, and that body; None where it could not be had. The connection is free afterwards."""
    assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # what an async transport gives
    parts: list[bytes] = []
    total = 0
    try:
        async with asyncio.timeout(REFUSAL_S):
            async for chunk in response.stream:
                parts.append(chunk)
                total += len(chunk)
                if total > REFUSAL_BYTES:
                    return None
    except (TimeoutError, httpx.TransportError):
        return None
    finally:
        await response.stream.aclose()
    body = b"".join(parts)
    same = httpx.Response(response.status_code, headers=response.headers.raw, stream=httpx.ByteStream(body))
    return same, body
