"""How a stream can fail by what came, or did not: one Failure for each."""

from __future__ import annotations

from typing import Final

from gateway.errors import Failure

EMPTY: Final = Failure("upstream_empty", "The upstream ended its answer before it said anything. Ask again.")
INCOMPLETE: Final = Failure("upstream_incomplete", "The upstream ended its answer in the middle, so it is cut short. Ask again.")
TOO_LARGE: Final = Failure("upstream_event_too_large", "The upstream sent an event larger than limits.event_bytes; raise it.")
SILENT: Final = Failure("upstream_silent", "The upstream fell silent for longer than clocks.silence. Ask again.")
