"""One completion in its two forms: a whole answer, and the stream that adds up to it."""

from __future__ import annotations

import json
from typing import Any

from dialects.reading import event
from gateway.dialects import Chat
from gateway.wire.sse import Decoder
from support.chunks import USAGE, compact

COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "m-test",
    "system_fingerprint": "fp",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi 😀", "refusal": None}, "logprobs": None, "finish_reason": "stop"}
    ],
    "usage": USAGE,
}


PART = {"type": "text", "text": "a"}


def streamed(value: Any) -> list[str]:
    made = Chat.as_stream(b"application/json", value if isinstance(value, bytes) else compact(value).encode())
    assert isinstance(made, bytes)
    return [each.data.decode() for each in Decoder(2**20).feed(made)]


def gathered(*datas: str | bytes) -> Any:
    made = Chat.gathered([event(data) for data in datas])
    assert isinstance(made, bytes), made
    return json.loads(made)
