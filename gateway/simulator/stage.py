"""What a demo needs around it: the embedded upstream, a gateway in front of it, and clients, all started and all ended.

The upstream and the clients share an event loop in a thread of its own, so that drawing cannot delay them; the gateway is a
process. Whatever happens, leaving the context ends both.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self

from gateway.companion import GATEWAY, Companion, CompanionError
from gateway.simulator.serve import loop_factory, serving

_START_PATIENCE_S: Final = 30.0  # a cold disk and a busy machine
_END_PATIENCE_S: Final = 5.0  # the clients are gone by then, so there is nothing to drain
_SWITCH_S: Final = 0.001  # how long drawing may keep the clients' thread from noting an arrival; Python's own is 5 ms


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
        self._beside: Companion | None = None
        self._switch_s = sys.getswitchinterval()

    def __enter__(self) -> Self:
        sys.setswitchinterval(_SWITCH_S)
        try:
            self._thread.start()
            self.upstream = self._ready.result(_START_PATIENCE_S)
            self._beside = Companion(self.upstream, self._command, direct=True)
            self.gateway = self._beside.__enter__().url
        except OSError as error:
            self.close()
            raise StageError(f"could not start: {error.strerror or error}") from error
        except CompanionError as error:
            self.close()
            raise StageError(str(error)) from error
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
        if self._beside is not None:
            self._beside.close()
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
