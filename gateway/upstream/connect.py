"""Owns how a connection comes about: name, address, socket, TLS.

Must not know of pools or requests' contents. All of a name's addresses are tried, the families in turn, each a quarter of a
second after the one before (RFC 8305): done here because uvloop's create_connection tries them strictly one after another, so
that one silent address would use up the whole time.
Invariant: whatever the way out, only the socket of the connection that is returned stays open.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from itertools import chain, zip_longest
from typing import Final

import httpx

from .failures import connect_failed, connect_timed_out, resolve_failed, tls_failed
from .http1 import Connection
from .http2 import SharedConnection
from .secure import Secure

ATTEMPT_DELAY_S: Final = 0.25  # RFC 8305, section 5
# A stream may be silent for minutes; a peer that has vanished is noticed after 60 + 4 x 15 s, and a NAT keeps the mapping.
KEEPALIVE_IDLE_S: Final = 60
KEEPALIVE_INTERVAL_S: Final = 15
KEEPALIVE_PROBES: Final = 4

Address = tuple[int, tuple[object, ...]]  # family, sockaddr
Protocol = Connection | SharedConnection | Secure  # what the socket is given to
Resolve = Callable[[str, int], Awaitable[list[Address]]]  # raises OSError; never an empty list


async def connect(
    make: Callable[[], Protocol], resolve: Resolve, host: str, port: int, within_s: float | None, request: httpx.Request
) -> Connection | SharedConnection:
    """A connection to host:port; the one that TLS leads to where `make` gives that.

    Raises ResolveError, TLSError, httpx.ConnectError or, where all of it together takes longer than `within_s`, ConnectTimeout.
    """
    phase = "resolving the name"
    protocol: Protocol | None = None
    timeout = asyncio.timeout(within_s)
    try:
        async with timeout:
            try:
                addresses = await resolve(host, port)
            except (OSError, UnicodeError) as error:  # UnicodeError: no name can look like this
                raise resolve_failed(error, host, request) from error
            phase = "connecting"
            try:
                sock = await first_socket(_in_turn(addresses))
            except ExceptionGroup as failed:
                raise connect_failed(failed.exceptions, host, port, request) from failed
            phase = "negotiating TLS"
            protocol = await _adopt(sock, make)
            if not isinstance(protocol, Secure):
                return protocol
            try:
                return await protocol.secured
            except OSError as error:  # ssl.SSLError is one
                raise tls_failed(error, host, port, request) from error
    except BaseException as error:
        if protocol is not None:
            protocol.drop()
        if isinstance(error, TimeoutError) and timeout.expired():
            raise connect_timed_out(phase, host, port, within_s or 0.0, request) from None
        raise


async def system_addresses(host: str, port: int) -> list[Address]:
    """By the operating system's resolver, in its order (RFC 6724); an address stands for itself."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).version == 4:
            return [(socket.AF_INET, (host, port))]
        if "%" not in host:  # else the zone must be looked up
            return [(socket.AF_INET6, (host, port, 0, 0))]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(int(family), tuple(sockaddr)) for family, _, _, _, sockaddr in found]


def _in_turn(addresses: list[Address]) -> list[Address]:
    """Each once, families alternating, beginning with the resolver's first."""
    unique = list(dict.fromkeys(addresses))
    preferred = [a for a in unique if a[0] == unique[0][0]]
    others = [a for a in unique if a[0] != unique[0][0]]
    return [a for a in chain.from_iterable(zip_longest(preferred, others)) if a is not None]


async def first_socket(addresses: list[Address]) -> socket.socket:
    """The first socket that connects. Raises an ExceptionGroup of OSErrors where none does."""
    if len(addresses) == 1:
        try:
            return await _open(addresses[0])
        except OSError as error:
            raise ExceptionGroup("no address answered", [error]) from None
    waiting = list(reversed(addresses))
    attempts: set[asyncio.Task[socket.socket]] = set()
    errors: list[Exception] = []
    try:
        while waiting or attempts:
            if waiting:
                attempts.add(asyncio.create_task(_open(waiting.pop())))
            done, _ = await asyncio.wait(attempts, timeout=ATTEMPT_DELAY_S if waiting else None, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                attempts.discard(attempt)
                try:
                    return attempt.result()
                except OSError as error:
                    errors.append(error)
        raise ExceptionGroup("no address answered", errors)
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(_close_late)


def _close_late(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _open(address: Address) -> socket.socket:
    family, sockaddr = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
            ("TCP_KEEPALIVE", KEEPALIVE_IDLE_S),  # the same on macOS
            ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
            ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        ):
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        await asyncio.get_running_loop().sock_connect(sock, sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock


async def _adopt(sock: socket.socket, make: Callable[[], Protocol]) -> Protocol:
    made: list[Protocol] = []

    def factory() -> Protocol:
        made.append(make())
        return made[0]

    try:
        await asyncio.get_running_loop().create_connection(factory, sock=sock)
    except BaseException:
        sock.close()
        # Cancelled in the turn in which it succeeds, uvloop closes a transport whose protocol has been told that it is
        # connected, and does not tell it of the end. asyncio does: told twice does no harm.
        for protocol in made:
            protocol.connection_lost(None)
        raise
    return made[0]
