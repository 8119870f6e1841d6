"""Owns the contract between a connection and whoever keeps connections between exchanges (pool.py, sharing.py; a fake in tests)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .http1 import Connection

Origin = tuple[str, str, int]  # scheme, host, port


class Link(Protocol):
    """What is open to an origin: a connection, or one whose TLS handshake is under way."""

    origin: Origin

    def fail(self, error: Exception) -> None:
        """Ends whatever goes on there with this error, and closes it."""

    def drop(self) -> None:
        """Closes it at once and tells nobody but the keeper."""


class Keeper(Protocol):
    """Told by a connection, synchronously, what becomes of it."""

    def opened(self, link: Link) -> None:
        """Its socket is open."""

    def give(self, connection: Connection) -> None:
        """The exchange is over and the connection can carry another."""

    def lost(self, connection: Connection) -> None:
        """It carries no other exchange; its socket is closing. May be told more than once."""

    def closed(self, link: Link) -> None:
        """Its socket is closed. Told last."""
