"""Owns which requests go through a proxy, as the environment says: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY.

Pure: must not know how a proxy is spoken to. Both spellings of each name count, the lower-case one first; HTTP_PROXY in
capitals is ignored in a CGI process, where a client's header `Proxy` could set it.
This machine itself (localhost, 127.0.0.0/8, ::1) is never reached through a proxy, as in Go: a proxy's loopback is another.
Invariant: no message holds a proxy's URL, which may carry a password.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

SCHEMES = ("http", "https", "socks5", "socks5h")


class ProxyProblem(ValueError):
    """A variable holds no usable proxy; the message names the variable and what is wrong."""


@dataclass(frozen=True, slots=True)
class Exemption:
    """One entry of NO_PROXY: a network, or a name with its subdomains; for one port, or all (0)."""

    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None
    name: str
    port: int

    def covers(self, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int) -> bool:
        if self.port and self.port != port:
            return False
        if self.network is not None:
            return address is not None and address in self.network
        return self.name == "*" or host == self.name or host.endswith("." + self.name)


class Proxies:
    """What the environment said. `named` is the variable and the value for each scheme of URL; empty values are none."""

    __slots__ = ("_exempt", "_named")

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._named: dict[str, tuple[str, str]] = {}
        everything = _read(environ, "ALL_PROXY")
        for scheme in ("http", "https"):
            found = _read(environ, f"{scheme.upper()}_PROXY")
            if found is not None and found[0] == "HTTP_PROXY" and "REQUEST_METHOD" in environ:
                found = None
            found = found or everything
            if found is not None:
                self._named[scheme] = found
        exempt = _read(environ, "NO_PROXY")
        self._exempt = tuple(_exemption(entry.strip().lower()) for entry in (exempt[1] if exempt else "").split(",") if entry.strip())

    def __bool__(self) -> bool:
        return bool(self._named)

    def find(self, scheme: str, host: str, port: int) -> str | None:
        """The URL of the proxy for this origin, None for a direct connection. Raises ProxyProblem."""
        named = self._named.get(scheme)
        if named is None:
            return None
        host = host.lower().rstrip(".")
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            address = None
        if host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback):
            return None
        if any(exemption.covers(host, address, port) for exemption in self._exempt):
            return None
        return _url(*named)


def _read(environ: Mapping[str, str], name: str) -> tuple[str, str] | None:
    for spelling in (name.lower(), name):
        value = environ.get(spelling, "").strip()
        if value:
            return spelling, value
    return None


def _url(variable: str, value: str) -> str:
    if "://" not in value:
        value = f"http://{value}"  # `proxy:3128`, as curl reads it
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise ProxyProblem(f"{variable} does not hold the URL of a proxy, such as http://proxy.example:3128")
    if parts.scheme not in SCHEMES:
        raise ProxyProblem(f"{variable} names a proxy that speaks {parts.scheme}; possible are {', '.join(SCHEMES)}")
    return value


def _exemption(entry: str) -> Exemption:
    try:
        return Exemption(ipaddress.ip_network(entry.strip("[]"), strict=False), "", 0)
    except ValueError:
        pass
    name, colon, digits = entry.rpartition(":")
    if colon and digits.isdigit():
        try:
            return Exemption(ipaddress.ip_network(name.strip("[]"), strict=False), "", int(digits))
        except ValueError:
            return Exemption(None, _bare(name), int(digits))
    return Exemption(None, _bare(entry), 0)


def _bare(name: str) -> str:
    return name if name == "*" else name.removeprefix("*").strip(".")
