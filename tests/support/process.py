"""The gateway as its users run it: a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from support.upstream import SAFETY_S

ROOT = Path(__file__).parents[2]


class Process:
    """port: where it listens. lines: its log so far, each line an object."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[dict[str, Any]] = []
        self.raw = ""
        self._changed = asyncio.Event()
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def logged(self, message: str) -> dict[str, Any]:
        """Wait for a record with this message."""
        async with asyncio.timeout(SAFETY_S):
            while True:
                for line in self.lines:
                    if line["message"] == message:
                        return line
                assert self._process.returncode is None, self.raw
                self._changed.clear()
                await self._changed.wait()

    @property
    async def port(self) -> int:
        return int((await self.logged("listening"))["url"].split(":")[2].split("/")[0])

    @property
    def pid(self) -> int:
        return self._process.pid

    async def changed(self) -> None:
        """Wait for its next line."""
        self._changed.clear()
        await self._changed.wait()

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def hang_up(self) -> None:
        self._process.send_signal(signal.SIGHUP)

    async def ended(self) -> int:
        """Its exit code."""
        async with asyncio.timeout(SAFETY_S):
            code = await self._process.wait()
            await self._reader
        return code

    async def _read(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self.raw += line.decode()
            with contextlib.suppress(ValueError):
                self.lines.append(json.loads(line))
            self._changed.set()
        self._changed.set()


@contextlib.asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[Process]:
    """`python -m gateway serve ...` on a free port; killed at the end if it still runs."""
    environ = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    command = [sys.executable, "-m", "gateway", "serve", "--port", "0", "--log-format", "json", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environ, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    handle = Process(process)
    try:
        yield handle
    finally:
        if process.returncode is None:
            process.kill()
        await handle.ended()
