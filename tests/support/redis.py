"""A real redis-server of the tests' own, on a free port, that keeps nothing on disk."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from typing import Final

from support import programs
from support.upstream import SAFETY_S

PROGRAMS: Final = ("redis-server", "valkey-server")


def program() -> str:
    """Where it is; installed where that can be (support/programs.py)."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None) or programs.program("redis-server")


class RedisServer:
    """url: where it listens. It can be stopped, killed, and started again on the same port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        quiet = {"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL}
        options = ("--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--protected-mode", "no")
        self._process = await asyncio.create_subprocess_exec(program(), *options, **quiet)
        async with asyncio.timeout(SAFETY_S):
            while not await self._answers():
                assert self._process.returncode is None, "redis-server does not start"
                await asyncio.sleep(0.01)

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.write(b"PING\r\n")
        answer = await reader.readline()
        writer.close()
        return answer == b"+PONG\r\n"

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def freeze(self) -> None:
        """It is there and does not answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.asynccontextmanager
async def redis_server() -> AsyncIterator[RedisServer]:
    server = RedisServer(free_port())
    await server.start()
    try:
        yield server
    finally:
        await server.kill()
