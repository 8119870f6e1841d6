"""How many connections a process can hold: each takes a file descriptor, and a stream a second one for its upstream."""

from __future__ import annotations

import logging
from typing import Final

try:
    import resource
except ImportError:  # not on Windows, which has no such limit
    resource = None  # type: ignore[assignment]

LOG: Final = logging.getLogger("decluster")
_OTHERS: Final = 128  # the listener, the loop, files, idle connections to upstreams


def raise_limit(connections: int) -> None:
    """Up to what the system allows, as far as so many connections want it; shells and systemd start programs with 1,024."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + _OTHERS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):  # a sandbox: what there is must do
        allowed = soft
    if allowed < wanted:
        LOG.info("the system allows fewer connections than listen.connections", extra={"connections": room_for(connections)})


def room_for(connections: int) -> int:
    """So many, or as many as descriptors suffice for: beyond it new ones could not even be refused."""
    if resource is None:
        return connections
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connections if soft == resource.RLIM_INFINITY else max(min(connections, (soft - _OTHERS) // 2), 1)
