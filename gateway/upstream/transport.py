"""Owns the way of a request to its connection: proxy or direct, HTTP/1.1 or HTTP/2, one that is there or a fresh one, and one retry.

Must not know what requests mean, nor of targets, retries by policy or the relay's clocks.

Invariants: an HTTP/1.1 connection is in the pool or in an exchange, never in both. What is retried here, once, on another
connection, and only where the body can be sent again: a request that met a kept connection which the upstream had closed
meanwhile, so that no byte came; and one that the upstream has said it did not process (NotProcessed). Any other failure, and
the second, is the caller's.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from typing import Final, Literal

import httpx

from .connect import Protocol, Resolve, connect, system_addresses
from .failures import NotProcessed, Unheard, http2_missing, trust_failed
from .fields import FORBIDDEN
from .http1 import Connection
from .http2 import SharedConnection
from .keeper import Origin
from .pool import Pool
from .proxies import Proxies, ProxyProblem
from .request import encode
from .secure import Secure
from .sharing import Sharing
from .tls import ContextFactory, TrustError, context_factory
from .watch import Watch

FRESH = "decluster_fresh"  # a request's extension: on a fresh connection, since the one before may have failed by an old one
PORTS = {"http": 80, "https": 443}
Http2 = Literal["auto", "true", "false"]
OFFERS: Final[dict[Http2, tuple[str, ...]]] = {"auto": ("h2", "http/1.1"), "true": ("h2",), "false": ("http/1.1",)}


class Transport(httpx.AsyncBaseTransport):
    """HTTP/1.1 and HTTP/2 for one event loop. `response.stream` is a `Body`, behind a proxy a foreign stream; `push` takes both.

    Of a request's `extensions["timeout"]`: `connect` covers name, TCP and TLS; `write` each wait for the socket; `read` the
    wait for the response's head and each wait of an iteration over the body, but nothing once a sink is attached. `pool` has
    no meaning: there is no limit of connections to wait for.
    """

    def __init__(
        self,
        *,
        connections_idle: int = 256,
        idle_expiry_s: float = 60.0,
        head_bytes: int = 128 * 1024,
        hold_bytes: int = 256 * 1024,
        http2: Http2 = "false",
        window_bytes: int = 2 * 1024 * 1024,
        ping_after_s: float = 30.0,
        ping_within_s: float = 15.0,
        ssl_context: ContextFactory | None = None,
        proxies: Proxies | None = None,
        resolve: Resolve = system_addresses,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """
        connections_idle: kept to one origin; 256 is what a busy gateway has in flight to one upstream.
        idle_expiry_s: below the 75 s after which nginx closes, so that seldom a request meets a closing connection.
        head_bytes: the most of a response's head; 128 KiB is twice what the largest cookie and policy headers come to.
        hold_bytes: of a body, held for a reader that is slow or not there yet; 256 KiB is one read of uvloop.
        http2: auto: what the upstream chooses under TLS, HTTP/1.1 without; true: HTTP/2 always, without TLS by prior knowledge
        (RFC 9113, 3.3); false: HTTP/1.1. By a proxy it is always HTTP/1.1.
        window_bytes: what `hold_bytes` grows to for an HTTP/2 stream whose reader keeps up; a burst of 8,000 tokens is 2 MB.
        ping_after_s: of silence on an HTTP/2 connection with open streams; ping_within_s: for the answer. Together below the
        minute after which TCP's own keep-alive only begins, and seldom enough for servers that count pings.
        ssl_context: called once, in a thread, at the first https request (`tls.context_factory` by default).
        proxies: the environment's by default. resolve: name and port to addresses, by the system's resolver by default.
        clock: monotonic seconds for idle expiry, the loop's by default.
        """
        self._connections_idle = connections_idle
        self._idle_expiry_s = idle_expiry_s
        self._head_bytes = head_bytes
        self._hold_bytes = hold_bytes
        self._http2 = http2
        self._window_bytes = window_bytes
        self._ping_s = (ping_after_s, ping_within_s)
        self._ssl_context = ssl_context or context_factory()
        self._proxies = Proxies(os.environ) if proxies is None else proxies
        self._resolve = resolve
        self._clock = clock
        self._pool: Pool | None = None
        self._sharing: Sharing | None = None
        self._through: dict[str, httpx.AsyncHTTPTransport] = {}  # by proxy
        self._trusted: ssl.SSLContext | None = None
        self._closed = False

    @property
    def pool(self) -> Pool:
        """Made in the loop that the first request runs in."""
        if self._pool is None:
            loop = asyncio.get_running_loop()
            self._pool = Pool(loop, self._clock or loop.time, self._connections_idle, self._idle_expiry_s)
        return self._pool

    @property
    def sharing(self) -> Sharing:
        """Of the same loop."""
        if self._sharing is None:
            loop = asyncio.get_running_loop()
            clock = self._clock or loop.time

            def watch(connection: SharedConnection) -> Watch:
                return Watch(connection, loop, clock, self._idle_expiry_s, *self._ping_s)

            self._sharing = Sharing(loop, clock, self.pool, self._connections_idle, watch)
        return self._sharing

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises httpx.TransportError of the kind that names the phase, `request` set; see connect.py and http1.py."""
        if self._closed:
            raise httpx.ConnectError("the transport is closed", request=request)
        origin = _origin(request)
        if self._proxies:
            try:
                proxy = self._proxies.find(*origin)
            except ProxyProblem as problem:
                raise httpx.ProxyError(str(problem), request=request) from None
            if proxy is not None:
                return await self._by_proxy(proxy, request)
        outgoing = encode(request)
        timeout = request.extensions.get("timeout") or {}
        connect_s, read_s, write_s = timeout.get("connect"), timeout.get("read"), timeout.get("write")
        kept = None if request.extensions.get(FRESH) else self.pool.take(origin)
        first = kept or await self._connection(origin, connect_s, request)
        try:
            return await first.exchange(outgoing, request, read_s, write_s)
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            safe = isinstance(error, NotProcessed | Unheard) or (kept is not None and kept.silent)
            if outgoing.content is None or not safe:
                raise
        second = await self._connection(origin, connect_s, request, besides=first)
        return await second.exchange(outgoing, request, read_s, write_s)

    async def aclose(self) -> None:
        """Closes all connections, those in use as well, and returns when their sockets are closed."""
        self._closed = True
        if self._pool is not None:
            await self._pool.close()
        through, self._through = self._through, {}
        for transport in through.values():
            await transport.aclose()

    async def _connection(
        self, origin: Origin, connect_s: float | None, request: httpx.Request, besides: Connection | SharedConnection | None = None
    ) -> Connection | SharedConnection:
        """One that is shared and has room, or a fresh one; not the one `besides`."""
        if self._http2 == "false" or (self._http2 == "auto" and origin[0] == "http"):
            return await self._connect(origin, connect_s, request)
        sharing = self.sharing
        begun, left_s = sharing.now(), connect_s
        while True:
            shared = sharing.take(origin, besides)
            if shared is not None:
                return shared
            if not await sharing.wait(origin, left_s, request):
                break
            if connect_s is not None:
                left_s = max(round(connect_s - (sharing.now() - begun), 3), 0.0)
        attempt = sharing.begin(origin)
        try:
            connection = await self._connect(origin, left_s, request)
        except httpx.TransportError as error:
            if attempt is not None:
                attempt.error = error
            raise
        finally:
            if attempt is not None:
                sharing.end(origin, attempt)
        sharing.know(origin, isinstance(connection, SharedConnection))
        return connection

    async def _connect(self, origin: Origin, connect_s: float | None, request: httpx.Request) -> Connection | SharedConnection:
        scheme, host, port = origin
        trusted = await self._trust(request) if scheme == "https" else None
        pool, loop = self.pool, asyncio.get_running_loop()

        def speaking(protocol: str | None) -> Connection | SharedConnection:
            if protocol == "h2":
                return SharedConnection(origin, self.sharing, loop, self._head_bytes, self._hold_bytes, self._window_bytes)
            return Connection(origin, pool, loop, self._head_bytes, self._hold_bytes)

        def make() -> Protocol:
            if trusted is None:
                return speaking("h2" if self._http2 == "true" else None)
            return Secure(origin, pool, loop, trusted, OFFERS[self._http2], speaking)

        connection = await connect(make, self._resolve, host, port, connect_s, request)
        if self._http2 == "true" and isinstance(connection, Connection):
            connection.drop()
            raise http2_missing(host, port, request)
        if self._closed:  # meanwhile
            connection.drop()
            raise httpx.ConnectError("the transport is closed", request=request)
        return connection

    async def _trust(self, request: httpx.Request) -> ssl.SSLContext:
        if self._trusted is None:
            try:
                self._trusted = await asyncio.to_thread(self._ssl_context)
            except (TrustError, OSError) as error:
                _, host, port = _origin(request)
                raise trust_failed(error, host, port, request) from error
        return self._trusted

    async def _by_proxy(self, proxy: str, request: httpx.Request) -> httpx.Response:
        """By httpx's own transport: its cost is small beside a proxy's, and CONNECT, proxy logins and SOCKS are its trade."""
        transport = self._through.get(proxy)
        if transport is None:
            trusted = await self._trust(request)
            limits = httpx.Limits(
                max_connections=None,  # streams 101 and up would wait for the first hundred to end
                max_keepalive_connections=20,  # httpcore walks all that are idle for each request
                keepalive_expiry=self._idle_expiry_s,
            )
            try:
                transport = httpx.AsyncHTTPTransport(verify=trusted, http2=False, proxy=proxy, limits=limits)
            except (ValueError, ImportError) as error:  # ImportError: SOCKS without socksio
                raise httpx.ProxyError(f"the proxy of the environment cannot be used: {error}", request=request) from None
            self._through[proxy] = transport
        try:
            response = await transport.handle_async_request(request)
        except httpx.RequestError as error:
            error.request = request
            raise
        if any(FORBIDDEN.search(value) for _, value in response.headers.raw):  # h11 is less strict than llhttp
            await response.aclose()
            raise httpx.RemoteProtocolError("one of the response's fields holds a byte that HTTP forbids", request=request)
        return response


def _origin(request: httpx.Request) -> Origin:
    url = request.url
    scheme = url.scheme
    if scheme not in PORTS:
        raise httpx.UnsupportedProtocol(f"an upstream's URL must begin with http:// or https://, not {scheme}://", request=request)
    host = url.raw_host.decode("ascii")
    if not host:
        raise httpx.UnsupportedProtocol("an upstream's URL must name a host", request=request)
    return scheme, host, url.port or PORTS[scheme]
