"""What tests of one stream's machine send it, and what they look at."""

from __future__ import annotations

import json

import pytest

from gateway.errors import Failure
from support import sse as strict
from support.chunks import USAGE, chunk
from support.virtual import Relay, body

USAGE_CHUNK = chunk(top={"choices": [], "usage": USAGE})
RESET = Failure("upstream_reset", "It broke.")
PARTS = pytest.mark.parametrize("raw", [True, False], ids=["raw", "paced"])
BURST = [chunk("word ") for _ in range(60)]


def datas(relay: Relay) -> list[str]:
    events, _, rest = strict.read(body(relay.sent))
    assert not rest.strip()
    return [event.data for event in events]


def beats(relay: Relay) -> list[float]:
    """When heartbeats left."""
    return [at for at, data in relay.sent if data == b": keepalive\n\n"]


def code(relay: Relay) -> str:
    return str(json.loads(datas(relay)[-1])["error"]["code"])
