"""A gateway in a process beside this one: for programs that show what it does (demo, bench).

Whatever happens, leaving the context ends it. Its log is kept for one line, which says why it did not start.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import gateway

GATEWAY: Final = (sys.executable, "-m", "gateway")
_START_PATIENCE_S: Final = 30.0  # a cold disk and a busy machine
_END_PATIENCE_S: Final = 5.0  # the clients are gone by then, so there is nothing to drain
_POLL_S: Final = 0.05
_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy"})


class CompanionError(Exception):
    """It did not start; the message says why in one line."""


class Companion:
    """`with Companion(upstream) as gateway`: `gateway.url` is its base URL without /v1; `gateway.pid` its process.

    upstream: the base URL of its one upstream. command: what starts the gateway, without its arguments. direct: the upstream is on this
    machine, so that a proxy of the environment could not reach it.
    """

    def __init__(self, upstream: str, command: Sequence[str] = GATEWAY, *, direct: bool = False) -> None:
        self.url = ""
        self._upstream = upstream
        self._command = command
        self._direct = direct
        self._process: subprocess.Popen[bytes] | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed on exit

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def __enter__(self) -> Self:
        try:
            self._start()
        except OSError as error:
            self.close()
            raise CompanionError(f"the gateway could not be started: {error.strerror or error}") from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends it; more than once does no harm."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(_END_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._output.close()

    def _start(self) -> None:
        port = _free_port()
        command = [*self._command, "serve", "--upstream", self._upstream, "--host", "127.0.0.1", "--port", str(port)]
        # A session of its own: Ctrl-C reaches this program alone, which then ends the gateway.
        process = self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            env=_environment(os.environ, self._direct),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        until = time.monotonic() + _START_PATIENCE_S
        while not _answers(port):
            if process.poll() is not None:
                raise CompanionError(f"the gateway ended with exit code {process.returncode}: {self._last_words()}")
            if time.monotonic() > until:
                raise CompanionError(f"the gateway did not answer within {_START_PATIENCE_S:.0f} s: {self._last_words()}")
            time.sleep(_POLL_S)
        self.url = f"http://127.0.0.1:{port}"

    def _last_words(self) -> str:
        """The last line that the gateway wrote."""
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _environment(environ: Mapping[str, str], direct: bool) -> dict[str, str]:
    """Ours, so that the gateway is the one that this code belongs to, wherever the program was started."""
    kept = {name: value for name, value in environ.items() if not (direct and name.lower() in _PROXIES)}
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
