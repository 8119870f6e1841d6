"""What a demo needs around it: the embedded upstream, a gateway in front of it, and clients, all started and all ended.

The upstream and the clients share an event loop in a thread of its own, so that drawing cannot delay them; the gateway is a
process. Whatever happens, leaving the context ends both.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import gateway
from gateway.simulator.serve import loop_factory, serving

GATEWAY: Final = (sys.executable, "-m", "gateway")
_START_PATIENCE_S: Final = 30.0  # a cold disk and a busy machine
_END_PATIENCE_S: Final = 5.0  # the clients are gone by then, so there is nothing to drain
_POLL_S: Final = 0.05
_SWITCH_S: Final = 0.001  # how long drawing may keep the clients' thread from noting an arrival; Python's own is 5 ms
# The upstream is on this machine: a proxy of the environment cannot reach it.
_NO_PROXY: Final = frozenset({"http_proxy", "https_proxy", "all_proxy"})


class StageError(Exception):
    """It could not be set up; the message says why in one line."""


class Stage:
    """`with Stage() as stage`: stage.upstream and stage.gateway are base URLs without /v1."""

    def __init__(self, command: Sequence[str] = GATEWAY) -> None:
        self.upstream = ""
        self.gateway = ""
        self._command = command
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready: Future[str] = Future()
        self._thread = threading.Thread(target=self._run_loop, name="demo-loop", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed on exit, as the rest
        self._switch_s = sys.getswitchinterval()

    def __enter__(self) -> Self:
        sys.setswitchinterval(_SWITCH_S)
        try:
            self._thread.start()
            self.upstream = self._ready.result(_START_PATIENCE_S)
            self._start_gateway()
        except OSError as error:
            self.close()
            raise StageError(f"could not start: {error.strerror or error}") from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def submit(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Run it on the stage's loop."""
        assert self._loop is not None  # noqa: S101 - inside the context there is one
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Ends all that was started; more than once does no harm."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_END_PATIENCE_S)
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_END_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._output.close()
        sys.setswitchinterval(self._switch_s)

    def _run_loop(self) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._host())
        except BaseException as error:  # the other thread raises it
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _host(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with serving() as url:
            self._ready.set_result(url)
            await self._stop.wait()

    def _start_gateway(self) -> None:
        port = _free_port()
        command = [*self._command, "serve", "--upstream", self.upstream, "--host", "127.0.0.1", "--port", str(port)]
        # A session of its own: Ctrl-C reaches the demo alone, which then ends the gateway.
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        until = time.monotonic() + _START_PATIENCE_S
        while not _answers(port):
            if self._process.poll() is not None:
                raise StageError(f"the gateway ended with exit code {self._process.returncode}: {self._last_words()}")
            if time.monotonic() > until:
                raise StageError(f"the gateway did not answer within {_START_PATIENCE_S:.0f} s: {self._last_words()}")
            time.sleep(_POLL_S)
        self.gateway = f"http://127.0.0.1:{port}"

    def _last_words(self) -> str:
        """The last line that the gateway wrote."""
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Ours, so that the gateway is the one that this code belongs to, wherever the demo was started."""
    kept = {name: value for name, value in environ.items() if name.lower() not in _NO_PROXY}
    here = str(Path(gateway.__file__).parents[1])
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (here, environ.get("PYTHONPATH"))))
    return kept


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/healthz")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True
