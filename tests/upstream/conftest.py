from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.upstream.proxies import Proxies
from gateway.upstream.transport import Transport


@pytest.fixture(params=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Everything here holds on both loops."""
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@pytest.fixture
async def transport(anyio_backend: object) -> AsyncIterator[Transport]:
    async with Transport(proxies=Proxies({})) as transport:
        yield transport


@pytest.fixture
async def h2c(anyio_backend: object) -> AsyncIterator[Transport]:
    """HTTP/2 by prior knowledge."""
    async with Transport(proxies=Proxies({}), http2="true") as transport:
        yield transport
