"""The gateway as an HTTP server."""

from __future__ import annotations

from gateway.server.run import run

__all__ = ["run"]
