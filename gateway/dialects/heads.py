"""The few members of a chunk or an event that decide its way, as types for msgspec: the rest is not built."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET


class _Delta(msgspec.Struct, gc=False):
    # UNSET only where null is to be told from absence: it must be mended.
    role: Any = UNSET
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(msgspec.Struct, gc=False):
    index: Any = None
    text: Any = None
    finish_reason: Any = None
    logprobs: Any = None


class _ChatChoice(_Choice, gc=False):
    delta: _Delta | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]
    usage: Any = None
    error: Any = UNSET


class _ChatChunk(_Chunk, gc=False):
    choices: list[_ChatChoice]  # type: ignore[assignment]  # narrower on purpose


class Head(msgspec.Struct, gc=False):
    """Of a typed event."""

    type: str
    delta: Any = UNSET
    sequence_number: Any = UNSET
    logprobs: Any = UNSET


CHAT: Final = msgspec.json.Decoder(_ChatChunk)
COMPLETION: Final = msgspec.json.Decoder(_Chunk)
TYPED: Final = msgspec.json.Decoder(Head)
