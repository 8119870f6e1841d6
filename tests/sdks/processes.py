"""The gateway and the embedded upstream as processes on free ports, ended in every case."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_S = 60.0  # safety nets: each starts and ends within a second on an idle machine
END_S = 30.0
POLL_S = 0.02
_URL = re.compile(r"(http://127\.0\.0\.1:\d+)/v1")


class NotStarted(Exception):
    pass


@contextmanager
def simulator(log: Path) -> Iterator[str]:
    """Its base URL without /v1. Port 0 takes a free one, which its first line names."""
    with running(["simulate", "--port", "0"], log) as url:
        yield url


@contextmanager
def gateway(upstream: str, log: Path, settings: str = "") -> Iterator[str]:
    """Its base URL without /v1. settings: more lines of its configuration file."""
    config = log.with_suffix(".yaml")
    # A short grace: a test that failed may have left a stream behind.
    config.write_text(f"upstreams: [{{name: simulator, base_url: '{upstream}'}}]\nshutdown: {{grace: 1s}}\n{settings}", encoding="utf-8")
    with running(["serve", "--config", str(config), "--port", "0", "--log-format", "json"], log) as url:
        yield url


@contextmanager
def running(argv: list[str], log: Path) -> Iterator[str]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway", *argv],
            cwd=ROOT,
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield _url(process, log)
        process.terminate()
        assert process.wait(END_S) == 0, log.read_text(encoding="utf-8")
    finally:
        process.kill()
        process.wait()


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would lead a client or a server away from loopback."""
    foreign = ("OPENAI_", "ANTHROPIC_", "DECLUSTER_", "LANGCHAIN_", "LANGSMITH_", "LITELLM_")
    return {name: value for name, value in environ.items() if not name.lower().endswith("_proxy") and not name.startswith(foreign)}


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        if found := _URL.search(log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(POLL_S)
    raise NotStarted(log.read_text(encoding="utf-8"))
