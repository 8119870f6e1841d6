"""Writing to the client without a task, a future or a lock a write.

An ASGI `send` is a coroutine that ends at once as long as the client takes what it is given. So it is stepped right here, in the turn in
which the bytes came; only where it waits (the client is slow) is it left waiting and gone on with when its future is done.
Invariant: messages leave in the order of the calls; while one waits no other is begun, it waits behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, cast

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


class Channel:
    """`blocked`: write no more than what ends the matter until `drained` is called; `broken` is called if `send` raised."""

    __slots__ = ("_behind", "_broken", "_drained", "_loop", "_send", "blocked")

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Send, drained: Callable[[], None], broken: Callable[[], None]) -> None:
        self._loop = loop
        self._send = send
        self._drained = drained
        self._broken = broken
        self._behind: list[Message] = []
        self.blocked = False

    def write(self, message: Message) -> None:
        if self.blocked:
            self._behind.append(message)
            return
        self._step(cast("Coroutine[Any, Any, None]", self._send(message)), False)

    def _step(self, sending: Coroutine[Any, Any, None], waited: bool) -> None:
        try:
            waits_for = sending.send(None)
        except StopIteration:
            if waited:
                self.blocked = False
                while self._behind and not self.blocked:
                    self.write(self._behind.pop(0))
                if not self.blocked:
                    self._drained()
            return
        except Exception:  # whatever a server raises for a connection that is gone
            self.blocked = True
            self._loop.call_soon(self._broken)
            return
        self.blocked = True
        if waits_for is None:  # a bare yield: go on in the next turn
            self._loop.call_soon(self._step, sending, True)
        else:
            waits_for._asyncio_future_blocking = False  # what a task says to a future that it waits for
            waits_for.add_done_callback(lambda _: self._step(sending, True))
