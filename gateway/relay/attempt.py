"""One attempt at an upstream, up to the head of its answer: the answer, or what kept it from coming."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx

from gateway.errors import Failure
from gateway.relay.failures import before_the_answer, of_the_status

Opening = Callable[[], Awaitable[httpx.Response]]


async def attempt(opening: Opening, headers_s: float | None) -> httpx.Response | Failure:
    """`headers_s`: how long the head of the answer may take; None for ever. What the request's own body raises goes through."""
    try:
        async with asyncio.timeout(headers_s):
            response = await opening()
    except TimeoutError:
        return before_the_answer(httpx.ReadTimeout(""))
    except httpx.RequestError as error:
        return before_the_answer(error)
    odd = of_the_status(response.status_code)
    if odd is not None:
        await response.aclose()
        return odd
    return response
