"""Bytes as an attacker writes them, and what comes back, on a socket of its own."""

from __future__ import annotations

import asyncio
import re

from support.upstream import SAFETY_S

# A request that is answered and then closes: what it is told comes last, and shows where the server thought that a request begins.
LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n")


async def said(port: int, *parts: bytes) -> bytes:
    """All that comes until the server closes. Between the parts the server has time to read each by itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(SAFETY_S):
            answer = asyncio.get_running_loop().create_task(reader.read(-1))
            for part in parts:
                if writer.transport.is_closing():
                    break
                writer.write(part)
                await asyncio.sleep(0.02 if len(parts) > 1 else 0)  # two parts in one read would be another attack
            try:
                return await answer
            except ConnectionResetError:
                return b""
    finally:
        writer.close()


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in _STATUS.findall(answer)]
