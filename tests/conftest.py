"""What all tests share: hypothesis in a form that judges no wall time, and one event loop for what needs one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Machines are busy, so no example is judged by its time. Chance comes from the test itself, so that a run can be repeated; to look for
# new examples: `pytest --hypothesis-profile=explore`.
_BUSY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("decluster", derandomize=True, **_BUSY)
settings.register_profile("explore", **_BUSY)
settings.load_profile("decluster")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop that the gateway runs on. A folder whose subject is the loop itself asks for both."""
    return "asyncio", {"use_uvloop": True}
