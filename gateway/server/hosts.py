"""By which name the gateway is asked for. A page whose own name was pointed at this machine (DNS rebinding) is of one origin with whatever
answers there, so neither CORS nor `Origin` keeps it out: only the name that it asks for tells.

Addresses cannot be pointed elsewhere, nor can names that nobody on the internet can own (one label, as containers and services have;
`.internal`, `.local`, ...): they pass. Of the others, with `listen.hosts` all that are not listed are refused; without it, where the
gateway listens on loopback only, those by which a browser asks. There a program may come by any name: proxies keep `Host`.

Source: RFC 6761, 6762, 8375 and ICANN's reservation of `.internal`; of fields that pages cannot leave out: the Fetch standard.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from gateway.settings import Listen
from gateway.wire.headers import Fields

# Last labels that the public DNS will never have, or that home routers and companies use for what is their own.
_NOBODYS: Final = frozenset(
    {"localhost", "internal", "local", "lan", "home", "corp", "private", "intranet", "localdomain", "test", "invalid", "svc", "arpa"}
)
_KEPT_AT_MOST: Final = 256  # names that passed, so that they are not looked at again
_SHOWN_CHARS: Final = 100


class Names:
    """For one server. `foreign` is asked for each request."""

    def __init__(self, listen: Listen) -> None:
        listed = {host.lower().rstrip(".") for host in listen.hosts}
        self._own = frozenset({*listed, listen.host.lower().rstrip("."), *(_host_of(origin) for origin in listen.cors_origins)})
        self._strict = bool(listed)
        self._watches = self._strict or is_loopback(listen.host)
        self._passed: set[bytes] = set()

    def foreign(self, fields: Fields) -> str | None:
        """The name, if it is none of ours and keeps the request out."""
        if not self._watches:
            return None
        host = next((value for name, value in fields if name == b"host"), b"")
        if host in self._passed:
            return None
        asked = name_of(host)
        if asked in self._own or not _ownable(asked):
            if len(self._passed) < _KEPT_AT_MOST:
                self._passed.add(host)
            return None
        return asked[:_SHOWN_CHARS] if self._strict or _is_browsers(fields) else None


def name_of(host: bytes) -> str:
    """Of a Host field, without its port; an IPv6 address without its brackets."""
    text = host.decode("latin-1").strip().lower()
    name = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
    return name.rstrip(".")


def is_loopback(name: str) -> bool:
    """Whether the name stands for this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _ownable(name: str) -> bool:
    """Whether somebody on the internet could have this name point here."""
    first, dot, last = name.rpartition(".")
    if not dot or not first or last in _NOBODYS:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False


def _is_browsers(fields: Fields) -> bool:
    return any(
        name in (b"origin", b"referer", b"sec-fetch-site") or (name == b"user-agent" and value.startswith(b"Mozilla/"))
        for name, value in fields
    )


def _host_of(origin: str) -> str:
    return name_of(origin.partition("://")[2].encode("latin-1"))
