"""LiteLLM's SDK in front of an OpenAI-compatible base URL: what it gives through the gateway is what it gives without."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import openai
import pytest

from .answers import Json, Outcome, Taken, chat_outcome
from .cases import SLOW, WRAPPED, Params, chat
from .places import Headers, Pairs, Places, play, play_async
from .promises import Promises
from .seen import Seen

# LiteLLM asks an instance for what pydantic wants asked of the class.
pytestmark = pytest.mark.filterwarnings("ignore:Accessing the 'model_(computed_)?fields' attribute on the instance:DeprecationWarning")


def asked(url: str, params: Params, headers: Headers, **more: Any) -> Params:
    place = {"api_base": f"{url}/v1", "api_key": "sk-test", "extra_headers": dict(headers), "num_retries": 0, "max_retries": 0}
    return {**params, "model": f"openai/{params['model']}", "stream": True, **place, **more}


def described(error: openai.OpenAIError) -> Json:
    return {"kind": type(error).__name__, "status": getattr(error, "status_code", None), "message": str(error)}


def stream(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    import litellm

    chunks = Taken()
    try:
        for chunk in litellm.completion(**asked(url, params, headers, **more)):
            chunks.take(chunk.model_dump())
    except openai.OpenAIError as error:
        return chat_outcome(chunks, described(error))
    return chat_outcome(chunks)


async def astream(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    import litellm

    chunks = Taken()
    try:
        async for chunk in await litellm.acompletion(**asked(url, params, headers, **more)):
            chunks.take(chunk.model_dump())
    except openai.OpenAIError as error:
        return chat_outcome(chunks, described(error))
    return chat_outcome(chunks)


class LiteLLMPromises(Promises):
    cases = WRAPPED
    cut_short: ClassVar = {
        "dies-half-way": {"kind": "MidStreamFallbackError"},
        "no-finish": {"kind": "MidStreamFallbackError"},
    }


class TestSync(LiteLLMPromises):
    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play(places, cls.everything(), stream)


class TestAsync(LiteLLMPromises):
    cases: ClassVar = {name: params for name, params in WRAPPED.items() if name != "a tool call"}  # its 1,600 chunks take three seconds

    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play_async(places, cls.everything(), astream)


def test_a_stream_that_is_left_is_cancelled_at_the_upstream(places: Places, seen: Seen) -> None:
    import litellm

    async def leave() -> None:
        answer = await litellm.acompletion(**asked(places.gateway, chat(SLOW), {"x-request-id": "litellm-left"}))
        async for chunk in answer:
            if chunk.choices[0].delta.content:
                break
        await answer.aclose()
        assert (await asyncio.to_thread(seen.ended, "litellm-left"))["outcome"] == "cancelled"

    places.run(leave())
