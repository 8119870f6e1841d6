"""Owns the contract between a connection and whoever keeps connections between exchanges (pool.py; a fake in tests)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .http1 import Connection

Origin = tuple[str, str, int]  # scheme, host, port


class Keeper(Protocol):
    """Told by a connection, synchronously, what becomes of it."""

    def opened(self, connection: Connection) -> None:
        """Its socket is open."""

    def give(self, connection: Connection) -> None:
        """The exchange is over and the connection can carry another."""

    def lost(self, connection: Connection) -> None:
        """It carries no other exchange; its socket is closing. May be told more than once."""

    def closed(self, connection: Connection) -> None:
        """Its socket is closed. Told last."""
