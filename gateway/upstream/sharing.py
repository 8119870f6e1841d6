"""Owns the connections of one transport that carry several exchanges: which one a request goes on, and how long one without any stays.

Must not know how connections are made or what is sent on them. The pool knows them too, so that they can be closed.

The first connection with room is taken, so that those beyond the need fall idle and go. Requests that come while a connection is
being made wait for it, as many as it will take, where the origin is known to share or nothing is known of it yet: a burst at the
beginning would else open a connection each. There are as many connections as streams need at `streams` each: some tens at the most.
Invariant: a connection that is lost, leaving, full or in doubt is never given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import httpx

from .keeper import Link, Origin
from .pool import Pool
from .watch import Watch

if TYPE_CHECKING:
    from .http2 import SharedConnection

# What servers allow by default (nginx 128, Go 250, Envoy, Apache, Node and h2 100), and RFC 9113, 6.5.2, asks them to allow.
STREAMS: Final = 100


class Attempt:
    """A connection that is being made. places: how many more requests may wait for it. error: why it did not come about."""

    __slots__ = ("done", "error", "places")

    def __init__(self, done: asyncio.Future[None], places: int) -> None:
        self.done = done
        self.places = places
        self.error: httpx.TransportError | None = None


class Sharing:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        pool: Pool,
        connections_idle: int,
        watch: Callable[[SharedConnection], Watch],
    ) -> None:
        """connections_idle: kept to one origin without a stream. watch: makes the timer of a connection."""
        self._loop = loop
        self._clock = clock
        self._pool = pool
        self._connections_idle = connections_idle
        self._watch = watch
        self._watches: dict[SharedConnection, Watch] = {}
        self._connections: dict[Origin, list[SharedConnection]] = {}
        self._attempts: dict[Origin, Attempt] = {}
        self._shares: dict[Origin, bool] = {}
        self._streams: dict[Origin, int] = {}

    # For the transport.

    def now(self) -> float:
        return self._loop.time()

    def take(self, origin: Origin, besides: object = None) -> SharedConnection | None:
        """One with room for another stream; not the one `besides`."""
        for connection in tuple(self._connections.get(origin, ())):
            if self._watches[connection].expired:
                connection.drop()
            elif connection is not besides and connection.room > 0 and not self._watches[connection].doubted:
                return connection
        return None

    async def wait(self, origin: Origin, within_s: float | None, request: httpx.Request) -> bool:
        """Waits for a connection that is being made; False where there is none to wait for. Raises what it failed with."""
        attempt = self._attempts.get(origin)
        if attempt is None or attempt.places < 1:
            return False
        attempt.places -= 1
        await asyncio.wait({attempt.done}, timeout=within_s)
        if not attempt.done.done():
            raise httpx.ConnectTimeout(f"no connection to {origin[1]}:{origin[2]} within {within_s:g} s", request=request)
        if attempt.error is not None:
            raise type(attempt.error)(str(attempt.error), request=request)
        return True

    def begin(self, origin: Origin) -> Attempt | None:
        """A connection is being made; None where nobody should wait for it, since it will carry one exchange only."""
        if not self._shares.get(origin, True):
            return None
        attempt = self._attempts[origin] = Attempt(self._loop.create_future(), self.streams_at_most(origin) - 1)
        return attempt

    def end(self, origin: Origin, attempt: Attempt) -> None:
        if self._attempts.get(origin) is attempt:
            del self._attempts[origin]
        attempt.done.set_result(None)

    def know(self, origin: Origin, shares: bool) -> None:
        """What a connection to this origin turned out to be."""
        self._shares[origin] = shares

    # For the connections.

    def streams_at_most(self, origin: Origin) -> int:
        return min(STREAMS, self._streams.get(origin, STREAMS))

    def learned(self, origin: Origin, streams: int) -> None:
        """What the peer allows on a connection; the next one is reckoned with it before its settings have come."""
        self._streams[origin] = max(streams, 1)

    def opened(self, connection: SharedConnection) -> None:
        self._pool.opened(connection)
        self._watches[connection] = watch = self._watch(connection)
        self._connections.setdefault(connection.origin, []).append(connection)
        watch.idle()

    def busy(self, connection: SharedConnection) -> None:
        """It has its first stream."""
        self._watches[connection].busy()

    def idle(self, connection: SharedConnection) -> None:
        """Its last stream has ended."""
        self._watches[connection].idle()
        if sum(not each.busy for each in self._connections.get(connection.origin, ())) > self._connections_idle:
            connection.drop()

    def doubt(self, connection: SharedConnection) -> None:
        """It may be dead: see Watch."""
        watch = self._watches.get(connection)
        if watch is not None:
            watch.doubt()

    def lost(self, connection: SharedConnection) -> None:
        """It takes no stream any more. May be told more than once."""
        connections = self._connections.get(connection.origin)
        if connections is not None and connection in connections:
            connections.remove(connection)
            if not connections:
                del self._connections[connection.origin]

    def closed(self, link: Link) -> None:
        """Its socket is closed. Told last."""
        watch = self._watches.pop(link, None)  # type: ignore[call-overload]
        if watch is not None:
            watch.stop()
        self._pool.closed(link)
