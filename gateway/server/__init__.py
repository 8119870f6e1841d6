"""The gateway as an HTTP server."""

from __future__ import annotations

from gateway.server.run import run, supervise

__all__ = ["run", "supervise"]
