"""A request, read: what the player has to know of it, whatever its dialect."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import zstandard

from gateway.simulator.encode import Json
from gateway.simulator.scenarios import Rejection
from gateway.simulator.tools import EDIT_FILE, Tool

BODY_LIMIT_BYTES: Final = 64 * 2**20  # as the gateway's own: a request with several images is 25 MB
_FASTEST: Final = 1e6  # all at once, for all that a socket can tell
_MOST_CHOICES: Final = 16
_BYTES_A_TOKEN: Final = 4  # of a prompt: a rough count, as usage in a simulation may be


class Rejected(Exception):
    """The request is answered with an error."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.message)
        self.rejection = rejection


def invalid(message: str, param: str | None = None, status: int = 400) -> Rejected:
    return Rejected(Rejection(status, message, param=param))


@dataclass(frozen=True, slots=True)
class Ask:
    """last_user: what the user said last. answers_tool: the request carries a tool's result. choices: how many answers are
    wanted. body: the whole request."""

    model: str
    stream: bool
    seed: str
    speed: float
    last_user: str
    answers_tool: bool
    tool: Tool
    choices: int
    prompt_tokens: int
    body: Json


def decode(raw: bytes, encoding: str) -> Json:
    """The JSON object in a request body, compressed or not. Raises Rejected."""
    try:
        if encoding == "zstd":
            with zstandard.ZstdDecompressor().stream_reader(raw) as reader:
                raw = reader.read(BODY_LIMIT_BYTES + 1)
        elif encoding in ("gzip", "deflate"):
            raw = zlib.decompressobj(wbits=47).decompress(raw, BODY_LIMIT_BYTES + 1)  # 47: gzip or zlib, by its header
        elif encoding not in ("", "identity"):
            raise invalid(f"Unsupported content-encoding: {encoding}", status=415)
        if len(raw) > BODY_LIMIT_BYTES:
            raise invalid("Request body is too large", status=413)
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, zlib.error, zstandard.ZstdError):
        raise invalid("We could not parse the JSON body of your request.") from None
    if not isinstance(body, dict):
        raise invalid("The body of your request has to be a JSON object.")
    return body


def ask(
    body: Json,
    headers: Mapping[str, str],
    *,
    last_user: str,
    answers_tool: bool = False,
    tool: Tool = EDIT_FILE,
    choices: int = 1,
) -> Ask:
    """What every dialect shares, checked. Raises Rejected."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise invalid("you must provide a model parameter", "model")
    stream = body.get("stream") or False
    if not isinstance(stream, bool):
        raise invalid("'stream' has to be a boolean", "stream")
    if not 1 <= choices <= _MOST_CHOICES:
        raise invalid(f"'n' has to be between 1 and {_MOST_CHOICES}", "n")
    return Ask(
        model=model,
        stream=stream,
        seed=headers.get("x-simulate-seed") or str(body.get("seed") or 0),
        speed=_speed(headers.get("x-simulate-speed")),
        last_user=last_user,
        answers_tool=answers_tool,
        tool=tool,
        choices=choices,
        prompt_tokens=prompt_tokens(body),
        body=body,
    )


def prompt_tokens(body: Json) -> int:
    parts = [body.get(key) for key in ("messages", "prompt", "input", "system", "instructions", "tools")]
    return sum(len(msgspec.json.encode(part)) for part in parts if part) // _BYTES_A_TOKEN + 1


def _speed(value: str | None) -> float:
    if value is None:
        return 1.0
    try:
        speed = float(value)
    except ValueError:
        speed = math.nan
    if not 0 < speed <= _FASTEST:
        raise invalid("x-simulate-speed has to be a number above 0: times are divided by it")
    return speed


def words_of(content: Any) -> str:
    """The text of a message's content, be it a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""


def last_of(messages: Any, role: str = "user") -> str:
    """What a role said last."""
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, dict) and message.get("role") == role:
            return words_of(message.get("content"))
    return ""


def latest(items: Any) -> Json:
    """The last item of a conversation that is no instruction: agents put notes of theirs behind a tool's result."""
    for item in reversed(items if isinstance(items, list) else []):
        if isinstance(item, dict) and item.get("role") not in ("developer", "system"):
            return item
    return {}
