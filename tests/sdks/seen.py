"""What the embedded upstream saw of a request."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SAFETY_S = 30.0  # longer than any scenario that these tests leave
POLL_S = 0.02


@dataclass(frozen=True)
class Seen:
    simulator: str

    def entry(self, request_id: str) -> dict[str, Any] | None:
        """The last request of that id (a client may name its request by `x-request-id`)."""
        with urllib.request.urlopen(f"{self.simulator}/_sim/stats", timeout=SAFETY_S) as answer:
            found = [entry for entry in json.load(answer)["log"] if entry["request_id"] == request_id]
        return found[-1] if found else None

    def begun(self, request_id: str) -> dict[str, Any]:
        """Waits until the upstream has it."""
        return self._until(request_id, lambda entry: True)

    def ended(self, request_id: str) -> dict[str, Any]:
        """Waits until it is over, in whatever way."""
        return self._until(request_id, lambda entry: entry["outcome"] != "active")

    def _until(self, request_id: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        until = time.monotonic() + SAFETY_S
        while time.monotonic() < until:
            entry = self.entry(request_id)
            if entry is not None and wanted(entry):
                return entry
            time.sleep(POLL_S)
        raise TimeoutError(request_id)
