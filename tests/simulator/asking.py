"""Asking the embedded upstream in this process, on virtual time, and reading its answers: independent of how it renders them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.simulator.app import Simulator

PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
Json = dict[str, Any]


class VirtualTime:
    """A clock that sleeping moves on, so that a scenario of 20 s takes none."""

    def __init__(self) -> None:
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    writes: list[bytes] = field(default_factory=list)
    times: list[float] = field(default_factory=list)  # of the writes, from the request
    complete: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[tuple[str | None, Json]]:
        return events(self.body)


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def within() -> Any:
        async with asyncio.timeout(20):
            return await work()

    return asyncio.run(within())


def request(dialect: str, model: str, said: str = "hello", **extra: Any) -> Json:
    """The smallest body that each dialect takes."""
    message = [{"role": "user", "content": said}]
    own: Json = {
        "chat": {"messages": message},
        "completions": {"prompt": said},
        "responses": {"input": said},
        "messages": {"messages": message, "max_tokens": 4096},
    }[dialect]
    return {"model": model, **own, **extra}


def ask(
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    method: str = "POST",
    app: Simulator | None = None,
    time: VirtualTime | None = None,
) -> Answer:
    """One request, played to its end."""
    time = time or VirtualTime()
    app = app or Simulator(time.clock, time.sleep)
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    answer, began = Answer(), time.now
    inbox: list[Json] = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive() -> Json:
        if inbox:
            return inbox.pop()
        return await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        if message["body"]:
            answer.writes.append(message["body"])
            answer.times.append(time.now - began)
        answer.complete = not message["more_body"]

    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    run(lambda: app(scope, receive, send))
    return answer


def stream(dialect: str, model: str, said: str = "hello", **extra: Any) -> Answer:
    return ask(PATHS[dialect], request(dialect, model, said, stream=True, **extra))


def whole(dialect: str, model: str, said: str = "hello", **extra: Any) -> Json:
    answer: Json = ask(PATHS[dialect], request(dialect, model, said, **extra)).json()
    return answer


def events(body: bytes) -> list[tuple[str | None, Json]]:
    """Strictly: every block is `event:` and `data:` lines, in JSON, ended by a blank line; a last [DONE] is left out."""
    assert not body or body.endswith(b"\n\n")
    out: list[tuple[str | None, Json]] = []
    blocks = body.split(b"\n\n")[:-1]
    for position, block in enumerate(blocks):
        lines = block.split(b"\n")
        name = lines.pop(0).removeprefix(b"event: ").decode() if lines[0].startswith(b"event: ") else None
        assert len(lines) == 1
        assert lines[0].startswith(b"data: ")
        if lines[0] == b"data: [DONE]":
            assert position == len(blocks) - 1
            break
        out.append((name, json.loads(lines[0][6:])))
    return out


def heard(dialect: str, answer: Answer) -> dict[str, str]:
    """What a stream said: reasoning, content, tool arguments and refusal, and how it ended."""
    said = {"reasoning": "", "content": "", "tool": "", "refusal": "", "end": ""}
    for _, data in answer.events():
        {"chat": _chat, "completions": _completions, "responses": _responses, "messages": _messages}[dialect](data, said)
    return said


def _chat(data: Json, said: dict[str, str]) -> None:
    for choice in data.get("choices", ()):
        if choice["index"] != 0:
            continue
        delta = choice["delta"]
        said["reasoning"] += delta.get("reasoning_content") or delta.get("reasoning") or ""
        said["content"] += delta.get("content") or ""
        said["refusal"] += delta.get("refusal") or ""
        said["tool"] += "".join(call["function"]["arguments"] for call in delta.get("tool_calls", ()))
        said["end"] = choice["finish_reason"] or said["end"]


def _completions(data: Json, said: dict[str, str]) -> None:
    for choice in data.get("choices", ()):
        said["content"] += choice["text"]
        said["end"] = choice["finish_reason"] or said["end"]


def _responses(data: Json, said: dict[str, str]) -> None:
    parts = {
        "response.reasoning_summary_text.delta": "reasoning",
        "response.output_text.delta": "content",
        "response.function_call_arguments.delta": "tool",
        "response.refusal.delta": "refusal",
    }
    if part := parts.get(data["type"]):
        said[part] += data["delta"]
    elif data["type"] in ("response.completed", "response.incomplete", "response.failed"):
        said["end"] = data["response"]["status"]


def _messages(data: Json, said: dict[str, str]) -> None:
    if data["type"] == "content_block_delta":
        parts = {"thinking": "reasoning", "text": "content", "partial_json": "tool"}
        for field_name, part in parts.items():
            said[part] += data["delta"].get(field_name, "")
    elif data["type"] == "message_delta":
        said["end"] = data["delta"]["stop_reason"]
