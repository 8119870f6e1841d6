"""Writing to the client without a task, a future or a lock a write.

An ASGI `send` is a coroutine that ends at once as long as the client takes what it is given. So it is stepped right here, in the turn in
which the bytes came; only where it waits (the client is slow) is it left waiting and gone on with when its future is done.
Invariant: messages leave in the order of the calls; while one waits no other is begun, it waits behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, cast

# A server's way around its own `send` for the body: takes the bytes and says True, or takes nothing and says False (the client is slow,
# the response has not begun, it is not chunked): then `send` must do.
Direct = Callable[[bytes], bool]
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


class Channel:
    """`blocked`: write no more than what ends the matter until `drained` is called; `broken` is called if `send` raised."""

    __slots__ = ("_behind", "_broken", "_direct", "_loop", "_send", "blocked", "drained")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        send: Send,
        drained: Callable[[], None],
        broken: Callable[[], None],
        direct: Direct | None = None,
    ) -> None:
        self._loop = loop
        self._direct = direct
        self._send = send
        self.drained = drained
        self._broken = broken
        self._behind: list[Message] = []
        self.blocked = False

    def body(self, data: bytes) -> None:
        """A part of the response's body: by the short way where there is one, in its turn in any case."""
        if self._direct is not None and not self.blocked and self._direct(data):
            return
        self.write({"type": "http.response.body", "body": data, "more_body": True})

    def write(self, message: Message) -> None:
        if self.blocked:
            self._behind.append(message)
            return
        self._step(cast("Coroutine[Any, Any, None]", self._send(message)), False)

    def close(self) -> None:
        """Nothing more is written, and nobody is told of what still waits. Its owner can be freed without the garbage collector."""
        self.drained = self._broken = _nobody
        self._direct = None

    def _step(self, sending: Coroutine[Any, Any, None], waited: bool) -> None:
        try:
            waits_for = sending.send(None)
        except StopIteration:
            if waited:
                self.blocked = False
                while self._behind and not self.blocked:
                    self.write(self._behind.pop(0))
                if not self.blocked:
                    self.drained()
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


def _nobody() -> None:
    """Who is told when the owner is gone."""
