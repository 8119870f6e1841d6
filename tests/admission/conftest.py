"""The minutes of `limits` on a clock of the tests' own."""

from __future__ import annotations

import types

import pytest


class Clock:
    """Unix time, which passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0  # the first second of a minute

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """`limits` has no seam for a clock, so it is given another `time` module."""
    import limits.aio.storage.base
    import limits.aio.storage.memory
    import limits.aio.strategies

    import gateway.server.rates

    found = Clock()
    made = types.SimpleNamespace(time=found.time)
    for module in (limits.aio.storage.memory, limits.aio.strategies, gateway.server.rates):
        assert hasattr(module, "time")
        monkeypatch.setattr(module, "time", made)
    return found
