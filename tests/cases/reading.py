"""The case files: troubles that broke real SDKs, proxies and gateways, as data, and what of them is meant by which setting of ours.

The format: `upstream` (status, headers, segments, end), `upstream_next` for later attempts, `request`, `client` (how it misbehaves),
`gateway_config` (settings in neutral names) and `expect`, which checks.py knows.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from functools import cache
from pathlib import Path
from time import time
from typing import Any

from support.plays import Play, Write

DATA = Path(__file__).parent / "data"

# Neutral name -> what it is here: changes to settings_for's arguments.
SETTINGS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "heartbeat_ms": lambda value: {"heartbeat": {"every": value / 1e3}},
    # Twice what the case says, which is still less than its stream lasts: a busy machine must not look like a silent upstream.
    "upstream_idle_ms": lambda value: {"clocks": {"silence": 2 * value / 1e3}},
    "ttfb_ms": lambda value: {"clocks": {"headers": value / 1e3}},
    "max_retries": lambda value: {"retry": {"attempts": value + 1}},
    "fallback": lambda value: {},  # the player's: the same upstream stands there twice
    "commit_early": lambda value: {},  # always: a heartbeat begins the response
    "upstream_base_url_suffix": lambda value: {},  # the player's: it makes the upstream's address
    "upstream_host": lambda value: {},
    "tls": lambda value: {},
    "think_tags": lambda value: {},  # the request's own to ask for: see CONTROLS
}
# Neutral name -> what a request says here to have it.
CONTROLS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "think_tags": lambda value: {"reasoning_format": "reasoning_content"} if value == "extract" else {},
}


@dataclass(frozen=True)
class Case:
    id: str
    api: str
    upstream: dict[str, Any]
    later: list[dict[str, Any]]
    request: dict[str, Any]
    client: dict[str, Any]
    config: dict[str, Any]
    expect: dict[str, Any]

    @property
    def plays(self) -> list[Play]:
        return [play_of(each) for each in (self.upstream, *self.later)]

    @property
    def needs(self) -> set[str]:
        """What the case wants that has no counterpart here."""
        return set(self.config) - set(SETTINGS)

    @property
    def http2(self) -> bool:
        """Its upstream speaks HTTP/2."""
        return self.upstream.get("http") == "2"


@cache
def cases() -> dict[str, Case]:
    found = {}
    for path in sorted(DATA.glob("*.json")):
        raw = json.loads(path.read_text())
        for name, value in raw.get("gateway_config", {}).items():
            raw["request"].get("body", {}).update(CONTROLS.get(name, lambda _: {})(value))
        found[raw["id"]] = Case(
            raw["id"],
            raw["api"],
            raw["upstream"],
            raw.get("upstream_next", []),
            raw["request"],
            raw.get("client", {}),
            raw.get("gateway_config", {}),
            raw["expect"],
        )
    return found


def play_of(upstream: dict[str, Any]) -> Play:
    fields = []
    for name, value in upstream.get("headers", {}).items():
        text = value.replace("{{http_date:now+2s}}", formatdate(time() + 2, usegmt=True))
        fields.append((name.encode("latin-1"), text.encode("latin-1")))
    delay_ms = upstream.get("header_delay_ms", 0)
    return Play(
        tuple(write for segment in upstream.get("segments") or () for write in _writes(segment)),
        upstream["status"],
        tuple(fields),
        upstream.get("end", "close"),
        "none" if upstream["status"] == 204 else upstream.get("framing", "chunked"),
        None if delay_ms is None else delay_ms / 1e3,
        upstream.get("fail") == "close_before_status_line",
    )


def _writes(segment: dict[str, Any]) -> list[Write]:
    data = base64.b64decode(segment["b64"]) if "b64" in segment else segment.get("text", "").encode("utf-8", "surrogatepass")
    data *= segment.get("repeat", 1)
    step = segment.get("split_every") or len(data) or 1
    pieces = [data[at : at + step] for at in range(0, len(data), step)] or [b""]
    gap_s = segment.get("gap_ms", 0) / 1e3
    first = Write(pieces[0], segment.get("after_ms", 0) / 1e3)
    return [first, *(Write(piece, gap_s) for piece in pieces[1:])]


def body_of(request: dict[str, Any]) -> bytes | None:
    if "body_b64" in request:
        body = base64.b64decode(request["body_b64"])
    elif "raw_body" in request:
        body = request["raw_body"].encode()
    elif request.get("body") is not None:
        body = json.dumps(request["body"]).encode()
    else:
        return None
    short = request.get("pad_body_to", 0) - len(body)
    return body if short <= 0 else body[:-1] + b" " * short + body[-1:]
