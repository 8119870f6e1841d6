"""A client whose connection is cut again and again, and that goes on where it was: by the last whole event, or by its text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.dialects.cursors import units
from support import sse
from support.client import Client, chat_body

By = Literal["event", "cursor"]
HEADERS = [("content-type", "application/json"), ("authorization", "Bearer test-key")]


@dataclass(frozen=True, slots=True)
class Cut:
    """After so many bytes of the body, at which of the gateways, and how the next request says where it is."""

    bytes: int
    gateway: int
    by: By = "event"
    abruptly: bool = True


@dataclass
class Had:
    """What a client has: whole events only, as an SDK gives them. datas: of all connections, in order."""

    text: str = ""
    last: str = ""
    datas: list[str] = field(default_factory=list)
    connections: int = 0

    def take(self, body: bytes) -> None:
        for event in sse.read(body)[0]:
            lines = [line for line in event.lines if line.startswith(b"id: ")]
            if lines:
                self.last = lines[0][4:].decode()
            self.datas.append(event.data)
            if event.data.startswith('{"id"'):
                for choice in json.loads(event.data)["choices"]:
                    self.text += choice["delta"].get("content") or ""


async def resumed(
    ports: Sequence[int], key: str, cuts: Sequence[Cut], last_port: int, more: Sequence[tuple[str, str]] = (), **members: Any
) -> Had:
    """Ask by one key; each connection is cut where it says; the last one stays until the end. `more`: headers; `members`: of the body."""
    had = Had()
    by: By = "event"
    for cut in [*cuts, None]:
        headers = [*HEADERS, ("idempotency-key", key), *more]
        options: dict[str, Any] = {}
        if by == "event" and had.last:
            headers.append(("last-event-id", had.last))
        elif by == "cursor" and had.text:
            options = {"stream_options": {"cursor_resume": units(had.text)}}
        async with await Client.to(ports[last_port if cut is None else cut.gateway]) as client:
            had.connections += 1
            client.ask(body=chat_body(**members, **options), headers=headers)
            if cut is None:
                answer = await client.ended()
                assert (answer.status, answer.whole) == (200, True), answer.body
                had.take(answer.body)
            else:
                body = await client.body_of(cut.bytes)
                had.take(body)
                client.leave(abruptly=cut.abruptly)
                by = cut.by
    return had
