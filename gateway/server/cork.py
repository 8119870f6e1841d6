"""How a response's bytes reach the transport: the head waits for what follows it, and a stream's frames take a short way past `send`.

Knows of a uvicorn cycle what a chunked body needs; nothing of requests.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

_AT_ONCE: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets


class Cork:
    """What a response is written to. Its head leaves with what is written next, in one write, at the latest in the loop's next turn.

    lacks: for a response whose end is the connection's, whether something of it is missing when it is closed: the client must not take that
    for the end (RFC 9112, 8), so the connection is reset.
    """

    __slots__ = ("_loop", "_transport", "head", "is_closing", "lacks", "through")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport = transport
        self.is_closing = transport.is_closing
        self.through = transport.write  # for what comes once the head has left
        self.head: bytes | None = b""  # None: it has left
        self.lacks: Callable[[], bool] | None = None

    def write(self, data: bytes) -> None:
        head = self.head
        if head == b"":
            self.head = data
            self._loop.call_soon(self._pull)
        else:
            self.head = None
            self.through(data if head is None else head + data)

    def close(self) -> None:
        self._pull()
        if self.lacks is not None and self.lacks():
            peer = self._transport.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self._transport.abort()
        self._transport.close()

    def _pull(self) -> None:
        if self.head:
            self.write(b"")


class Short:
    """The short way for a part of a body that is written in chunks: no coroutine, no message (`relay.channel.Direct`).

    cycle: uvicorn's `RequestResponseCycle`, whose fields say whether this way is open.
    """

    __slots__ = ("_cork", "_cycle", "_flow")

    def __init__(self, cycle: Any, cork: Cork) -> None:
        self._cycle = cycle
        self._flow = cycle.flow
        self._cork = cork

    def __call__(self, data: bytes) -> bool:
        cycle = self._cycle
        if not cycle.chunked_encoding or self._flow.write_paused or cycle.disconnected or cycle.response_complete:
            return False
        cork, part = self._cork, b"%x\r\n%b\r\n" % (len(data), data)
        if cork.head is None:
            cork.through(part)
        else:
            cork.write(part)
        return True
