"""OpenAI's Python SDK, chat and the rest: what it gives through the gateway is what it gives without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from .answers import Json, Outcome, Taken, chat_outcome, message
from .cases import CHAT, HEADERS, SLOW, Params, chat
from .places import Headers, Pairs, Places, play, play_async
from .promises import Promises
from .seen import Seen


def client(url: str, headers: Headers = HEADERS, **more: Any) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="sk-test", max_retries=0, default_headers=headers, **more)


def async_client(url: str, headers: Headers = HEADERS, **more: Any) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-test", max_retries=0, default_headers=headers, **more)


def described(error: openai.APIError) -> Json:
    out: Json = {"kind": type(error).__name__, "message": error.message, "code": error.code, "type": error.type, "body": error.body}
    if isinstance(error, openai.APIStatusError):
        out |= {"status": error.status_code, "retry-after": error.response.headers.get("retry-after")}
    return out


def stream(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    chunks = Taken()
    try:
        with client(url, headers, **more) as api, api.chat.completions.create(**params, stream=True) as answer:
            for chunk in answer:
                chunks.take(chunk.to_dict())
    except openai.APIError as error:
        return chat_outcome(chunks, described(error))
    return chat_outcome(chunks)


async def astream(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    chunks = Taken()
    try:
        async with async_client(url, headers, **more) as api, await api.chat.completions.create(**params, stream=True) as answer:
            async for chunk in answer:
                chunks.take(chunk.to_dict())
    except openai.APIError as error:
        return chat_outcome(chunks, described(error))
    return chat_outcome(chunks)


def stream_helped(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    kinds: set[str] = set()
    try:
        with client(url, headers, **more) as api, api.chat.completions.stream(**params) as answer:
            for event in answer:
                kinds.add(event.type)
            whole = _without_times(answer.get_final_completion().to_dict())
    except openai.APIError as error:
        return Outcome(None, "", described(error))
    return Outcome((kinds, whole), "".join(choice["message"].get("content") or "" for choice in whole["choices"]))


def whole(url: str, params: Params, headers: Headers) -> Any:
    with client(url, headers) as api:
        return _without_times(api.chat.completions.create(**params).to_dict())


def _without_times(completion: Any) -> Any:
    return {key: value for key, value in message(completion).items() if key != "created"}


class OpenAIPromises(Promises):
    cut_short: ClassVar = {
        "dies-half-way": {"kind": "APIError", "code": "upstream_reset"},
        "no-finish": {"kind": "APIError", "code": "upstream_incomplete"},
    }

    def test_a_direct_call_takes_a_stream_without_a_finish_for_a_success(self, played: Pairs) -> None:
        """The silent success that the gateway makes an exception of."""
        assert played["no-finish"].direct.error is None


class TestSync(OpenAIPromises):
    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play(places, cls.everything(), stream)


class TestAsync(OpenAIPromises):
    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play_async(places, cls.everything(), astream)


@pytest.mark.parametrize("ask", [stream_helped, whole])
def test_the_whole_message_is_that_of_a_direct_call(places: Places, ask: Callable[[str, Params, Headers], Any]) -> None:
    names = ("two choices with log-probabilities", "a tool call", "a tool's result answered", "a refusal", "every kind of character")
    cases = {name: CHAT[name] for name in names}
    for name, pair in play(places, cases, ask).items():
        assert pair.gateway == pair.direct, name


def completed(url: str, params: Params, headers: Headers) -> Json:
    chunks: list[Any] = []
    with client(url, headers) as api, api.completions.create(**params, stream=True) as answer:
        chunks += answer
    choices: Json = {}
    for choice in (choice for chunk in chunks for choice in chunk.choices):
        said = choices.setdefault(choice.index, {"text": "", "finishes": [], "tokens": [], "offsets": []})
        said["text"] += choice.text
        said["finishes"] += [choice.finish_reason] if choice.finish_reason else []
        if choice.logprobs:
            said["tokens"] += choice.logprobs.tokens
            said["offsets"] += choice.logprobs.text_offset
    return {"choices": choices, "usage": [chunk.usage for chunk in chunks if chunk.usage]}


def test_legacy_completions_are_those_of_a_direct_call(places: Places) -> None:
    several = {"model": "smooth-then-clusters", "prompt": ["Once", "Twice"], "stream_options": {"include_usage": True}}
    marked = {"model": "large-deltas", "prompt": "Once", "logprobs": 1}
    pairs = play(places, {"several": several, "marked": marked}, completed)
    assert set(pairs["several"].direct["choices"]) == {0, 1}
    assert pairs["marked"].direct["choices"][0]["offsets"][-1] > 0
    for name, pair in pairs.items():
        assert pair.gateway == pair.direct, name


def test_models_and_embeddings_are_those_of_a_direct_call(places: Places) -> None:
    with client(places.direct) as direct, client(places.gateway) as through:
        assert through.models.list().data == direct.models.list().data
        assert through.models.retrieve("steady") == direct.models.retrieve("steady")
        for form in ({}, {"encoding_format": "float"}, {"dimensions": 8}):  # base64 unless asked otherwise
            ask = {"model": "text-embedding-3-small", "input": ["one", "two"], **form}
            assert through.embeddings.create(**ask) == direct.embeddings.create(**ask)


@pytest.mark.parametrize("streamed", [True, False])
def test_the_upstreams_request_id_and_rate_limits_reach_the_client(places: Places, seen: Seen, streamed: bool) -> None:
    with client(places.gateway) as api:
        raw = api.chat.completions.with_raw_response.create(**chat("instant"), stream=streamed)
        answer = raw.parse()
        if streamed:
            assert list(answer)[-1].choices[0].finish_reason == "stop"
        assert raw.headers["x-ratelimit-remaining-requests"] == "9999"
        assert seen.ended(raw.headers["x-request-id"])["path"] == "/v1/chat/completions"


def test_a_stream_that_is_closed_early_is_cancelled_at_the_upstream(places: Places, seen: Seen) -> None:
    with client(places.gateway, {"x-request-id": "python-closed"}) as api:
        with api.chat.completions.create(**chat(SLOW), stream=True) as answer:
            assert next(chunk for chunk in answer if chunk.choices[0].delta.content)
        assert seen.ended("python-closed")["outcome"] == "cancelled"


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("model", ["hangs-before-headers", "hangs", "planner"])
def test_a_task_that_is_cancelled_while_it_waits_is_cancelled_at_the_upstream(
    places: Places, seen: Seen, model: str, streamed: bool
) -> None:
    name = f"python-{model}-{streamed}"

    async def ask() -> None:
        async with async_client(places.gateway, {"x-request-id": name}) as api:
            answer = await api.chat.completions.create(**chat(model), stream=streamed)
            async for _ in answer:
                pass

    async def leave() -> None:
        asking = asyncio.create_task(ask())
        await asyncio.to_thread(seen.begun, name)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        assert (await asyncio.to_thread(seen.ended, name))["outcome"] == "cancelled"

    places.run(leave())
