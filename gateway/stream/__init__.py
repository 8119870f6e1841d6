"""One stream's machine: upstream bytes in, frames for the client out. Pure."""

from __future__ import annotations

from gateway.stream.machine import Phase, Stream
from gateway.stream.mendable import MendableStream

__all__ = ["MendableStream", "Phase", "Stream"]
