"""One embedded upstream and one gateway for all SDKs, and a way to ask the upstream what it saw."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Protocol

import httpx
import httpx2
import pytest

from . import processes
from .javascript import Node
from .places import Pairs, Places
from .seen import Seen

_ENVIRON = dict(os.environ)  # as it was, for what has to reach a registry


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`case` in the tests that clients inherit: each of the client's own."""
    if metafunc.cls is not None and "case" in metafunc.fixturenames:
        metafunc.parametrize("case", metafunc.cls.cases)


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    """SDKs read keys, base URLs and proxies from the environment, and some fetch what they do not need here."""
    with pytest.MonkeyPatch.context() as patch:
        kept = processes.environment(os.environ)
        for name in set(os.environ) - set(kept):
            patch.delenv(name)
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import asks the network
        patch.setenv("LANGSMITH_TRACING", "false")
        yield


@pytest.fixture(scope="session")
def runner(clean_environment: None) -> Iterator[asyncio.Runner]:
    """The loop of all asynchronous clients. Some libraries keep HTTP clients for good, out of reach: they are looked for and closed."""
    with asyncio.Runner() as runner:
        yield runner
        for kept in gc.get_objects():
            if issubclass(type(kept), httpx2.AsyncClient | httpx.AsyncClient):
                runner.run(kept.aclose())
            elif issubclass(type(kept), httpx2.Client | httpx.Client):
                kept.close()


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory, runner: asyncio.Runner) -> Iterator[str]:
    with processes.simulator(tmp_path_factory.mktemp("simulator") / "log") as url:
        yield url


@pytest.fixture(scope="session")
def places(simulator: str, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """Where the same request can be sent: straight to the upstream, and through the gateway."""
    log = tmp_path_factory.mktemp("gateway") / "log"
    with processes.gateway(simulator, log) as url:
        yield Places(simulator, url, runner.run)
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if line["level"] in ("warning", "error")] == []


class Plays(Protocol):
    """A client whose module has no `played` of its own."""

    @classmethod
    def play(cls, places: Places) -> Pairs:
        """Asks `everything()` at both places."""


@pytest.fixture(scope="class")
def played(request: pytest.FixtureRequest, places: Places) -> Pairs:
    """All streams of one client, once for all its tests."""
    client: type[Plays] = request.cls
    return client.play(places)


@pytest.fixture(scope="session")
def seen(simulator: str) -> Seen:
    return Seen(simulator)


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """Node with the SDKs of package.json."""
    return Node.installed(Path(__file__).parent / "node", tmp_path_factory.mktemp("node"), _ENVIRON)


@pytest.fixture(scope="session")
def litellm(clean_environment: None) -> ModuleType:
    """Imported once, and only here: it takes seconds, and reads the environment then."""
    import litellm

    return litellm
