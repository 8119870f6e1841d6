"""LangChain's ChatOpenAI: the message that its chunks add up to is that of a direct call, on both APIs that it speaks."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import openai
from langchain_openai import ChatOpenAI

from .answers import Json, Outcome, message
from .cases import CUT_SHORT, HEADERS, SLOW, WRAPPED, WRITE_FILE, Params, chat
from .places import Headers, Pairs, Places, play, play_async
from .promises import Promises
from .seen import Seen


def model(url: str, name: str, headers: Headers = HEADERS, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(model=name, base_url=f"{url}/v1", api_key="sk-test", max_retries=0, default_headers=dict(headers), **more)


RAISED = (openai.OpenAIError, ValueError, TimeoutError)  # of a Responses stream that failed, and of its own idle clock


class Adding:
    """Chunks into one message, as users of this library do it."""

    def __init__(self) -> None:
        self.total: Any = None
        self.chunks = 0

    def add(self, chunk: Any) -> None:
        self.total = chunk if self.total is None else self.total + chunk
        self.chunks += 1

    def outcome(self, error: Exception | None = None) -> Outcome:
        described = None if error is None else {"kind": type(error).__name__, "message": str(error), "code": getattr(error, "code", None)}
        if self.total is None:
            return Outcome(None, "", described)
        dumped: Json = message(self.total.model_dump())
        for piece in dumped.pop("tool_call_chunks"):
            assert piece["index"] is not None
        text = str(self.total.text) + "".join(piece["args"] for piece in self.total.tool_call_chunks)
        return Outcome(dumped, text, described, self.chunks)


def _asked(params: Params) -> Params:
    return {key: value for key, value in params.items() if key not in ("model", "messages", "stream_options")}


def stream(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    adding = Adding()
    try:
        for chunk in model(url, params["model"], headers, stream_usage=True, **more).stream(params["messages"], **_asked(params)):
            adding.add(chunk)
    except RAISED as error:
        return adding.outcome(error)
    return adding.outcome()


async def astream(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    adding = Adding()
    try:
        async for chunk in model(url, params["model"], headers, stream_usage=True, **more).astream(params["messages"], **_asked(params)):
            adding.add(chunk)
    except RAISED as error:
        return adding.outcome(error)
    return adding.outcome()


class LangChainPromises(Promises):
    cases = WRAPPED
    cut_short: ClassVar = {
        "dies-half-way": {"kind": "APIError", "code": "upstream_reset"},
        "no-finish": {"kind": "APIError", "code": "upstream_incomplete"},
    }


class TestSync(LangChainPromises):
    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play(places, cls.everything(), stream)


class TestAsync(LangChainPromises):
    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play_async(places, cls.everything(), astream)


def test_through_the_responses_api_it_gives_what_a_direct_call_gives(places: Places) -> None:
    def ask(url: str, params: Params, headers: Headers) -> Outcome:
        return stream(url, params, headers, use_responses_api=True, output_version="responses/v1")

    cases = {
        "reasoning": chat("reasoning-field"),
        "call": chat("tool-call", tools=[WRITE_FILE]),
        "cut": chat(CUT_SHORT[0]),
    }
    pairs = play(places, cases, ask)
    for name in ("reasoning", "call"):
        assert pairs[name].direct.text
        assert pairs[name].gateway == pairs[name].direct
    assert pairs["cut"].gateway.error is not None


def test_a_stream_that_is_left_is_cancelled_at_the_upstream(places: Places, seen: Seen) -> None:
    async def leave() -> None:
        chunks = model(places.gateway, SLOW, {"x-request-id": "langchain-left"}).astream("Write the file.")
        async for chunk in chunks:
            if chunk.content:
                break
        await chunks.aclose()
        assert (await asyncio.to_thread(seen.ended, "langchain-left"))["outcome"] == "cancelled"

    places.run(leave())
