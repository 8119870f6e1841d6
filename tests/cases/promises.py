"""What holds of every stream that the gateway sends, whatever the upstream did."""

from __future__ import annotations

import json
from typing import Any

from support import sse
from support.chunks import DONE
from support.client import Answer

_HOP = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "content-length", "content-encoding")


def kept(api: str, answer: Answer, resumable: bool = False) -> None:
    """Asserts the promises of DESIGN, "A stream on the wire" and "Hygiene". resumable: its events carry ids."""
    assert answer.status == 200
    assert answer.header("content-type") == "text/event-stream; charset=utf-8"
    assert answer.header("cache-control") == "no-cache, no-transform"
    assert answer.header("x-accel-buffering") == "no"
    assert answer.header("x-request-id")
    assert not [name for name in _HOP if answer.header(name) is not None]
    assert answer.whole, "the HTTP message was cut"
    body = answer.body
    assert b"\r" not in body
    assert not body.startswith(b"\xef\xbb\xbf")
    events, _, rest = sse.read(body)
    assert rest.strip() == b"", "an event without its blank line"
    _frames_hold_whole_events(answer)
    for event in events:
        assert event.data, "an event without data"
        for line in event.lines:
            assert line.startswith((b"data: ", b"event: ", b":", *([b"id: "] if resumable else []))), line[:40]
        assert sum(line.startswith(b"id: ") for line in event.lines) == resumable
        assert sum(line.startswith(b"data: ") for line in event.lines) == 1, "JSON goes out on one line"
    if api in ("chat", "completions"):
        _chunks(events)


def _frames_hold_whole_events(answer: Answer) -> None:
    for frame in answer.frames:
        assert frame.data.endswith(b"\n\n") or frame.data.startswith(b":"), "a write that ends inside an event"


def strict(data: str) -> Any:
    """JSON without the words that Python takes for numbers."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(data, parse_constant=refuse)


def _chunks(events: list[sse.Event]) -> None:
    ended = False
    roles: dict[int, int] = {}
    finishes: dict[int, int] = {}
    for event in events:
        assert not ended, "something follows the end"
        if event.data == DONE:
            ended = True
            continue
        top = strict(event.data)
        if "error" in top:
            assert {"message", "type", "code"} <= top["error"].keys()
            ended = True
            continue
        for choice in top.get("choices") or ():
            index = choice["index"]
            assert type(index) is int
            delta = choice.get("delta", {})
            assert isinstance(delta, dict)
            if "role" in delta:
                assert delta["role"]
                roles[index] = roles.get(index, 0) + 1
            assert choice.get("finish_reason") != ""
            finishes[index] = finishes.get(index, 0) + (choice.get("finish_reason") is not None)
    assert all(count == 1 for count in roles.values()), "a role that comes twice"
    assert all(count <= 1 for count in finishes.values()), "a finish reason that comes twice"
