"""The embedded upstream as its users run it: a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def simulated(*arguments: str) -> Iterator[str]:
    """Its URL without /v1. `arguments`: further ones of `decluster simulate`."""
    command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            line = next(line for line in process.stdout if " at http" in line)
            yield line.split(" at ")[1].split()[0].removesuffix("/v1")
        finally:
            process.terminate()
