"""A real Chromium, a real gateway and a real upstream, each a process or a socket of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from gateway.companion import Companion
from support.programs import program
from support.simulated import simulated


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    path = program("chromium")
    with sync_playwright() as playwright:
        # As root Chromium has no sandbox; what it visits is ours.
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")  # not longer: while it is open, no other loop can run in this thread
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def upstream() -> Iterator[str]:
    with simulated() as url:
        yield url


@pytest.fixture
def gateway(upstream: str) -> Iterator[str]:
    """Fresh, so that its figures are the test's own; its URL without /v1."""
    with Companion(upstream, direct=True) as companion:
        yield companion.url
