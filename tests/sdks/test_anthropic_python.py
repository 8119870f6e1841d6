"""Anthropic's Python SDK: event by event what it gives without the gateway, but for how text is cut."""

from __future__ import annotations

from typing import Any, ClassVar

import anthropic
import httpx2
from anthropic import Anthropic, AsyncAnthropic

from .answers import Json, Outcome, Taken, message, typed_outcome
from .cases import HEADERS, MESSAGES, SLOW, Params, messages
from .places import Headers, Pairs, Places, play, play_async
from .promises import Promises
from .seen import Seen


def client(url: str, headers: Headers = HEADERS, **more: Any) -> Anthropic:
    return Anthropic(base_url=url, api_key="sk-test", max_retries=0, default_headers=headers, **more)


def async_client(url: str, headers: Headers = HEADERS, **more: Any) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=url, api_key="sk-test", max_retries=0, default_headers=headers, **more)


RAISED = (anthropic.APIError, httpx2.TransportError)  # this SDK lets its HTTP client's errors through in mid-stream


def described(error: Exception) -> Json:
    out: Json = {"kind": type(error).__name__}
    if isinstance(error, anthropic.APIError):
        out["body"] = body = {**error.body, "request_id": None} if isinstance(error.body, dict) else {}
        out["code"] = body.get("error", {}).get("code")
    if isinstance(error, anthropic.APIStatusError):
        out |= {"status": error.status_code, "retry-after": error.response.headers.get("retry-after")}
    return out


def stream(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    events = Taken()
    try:
        with client(url, headers, **more) as api, api.messages.create(**params, stream=True) as answer:
            for event in answer:
                events.take(event.to_dict())
    except RAISED as error:
        return typed_outcome(events, described(error))
    return typed_outcome(events)


async def astream(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    events = Taken()
    try:
        async with async_client(url, headers, **more) as api, await api.messages.create(**params, stream=True) as answer:
            async for event in answer:
                events.take(event.to_dict())
    except RAISED as error:
        return typed_outcome(events, described(error))
    return typed_outcome(events)


def stream_helped(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    kinds: set[str] = set()
    try:
        with client(url, headers, **more) as api, api.messages.stream(**params) as answer:
            for event in answer:
                kinds.add(event.type)
            whole = message(answer.get_final_message().to_dict())
    except RAISED as error:
        return Outcome(None, "", described(error))
    return Outcome((kinds - {"ping"}, whole), str(whole))


class MessagesPromises(Promises):
    cases = MESSAGES
    asked = staticmethod(messages)
    cut_short: ClassVar = {
        "dies-half-way": {"kind": "APIStatusError", "code": "upstream_reset"},
        "no-finish": {"kind": "APIStatusError", "code": "upstream_incomplete"},
    }


class TestSync(MessagesPromises):
    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play(places, cls.everything(), stream)


class TestAsync(MessagesPromises):
    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play_async(places, cls.everything(), astream)


def test_the_whole_message_is_that_of_a_direct_call(places: Places) -> None:
    for name, pair in play(places, MESSAGES, stream_helped).items():
        assert pair.gateway == pair.direct, name


def test_models_and_counted_tokens_are_those_of_a_direct_call(places: Places) -> None:
    with client(places.direct) as direct, client(places.gateway) as through:
        assert through.models.list().data == direct.models.list().data
        ask = {"model": "steady", "messages": messages("steady")["messages"]}
        assert through.messages.count_tokens(**ask) == direct.messages.count_tokens(**ask)


def test_a_stream_that_is_closed_early_is_cancelled_at_the_upstream(places: Places, seen: Seen) -> None:
    with client(places.gateway, {"x-request-id": "messages-closed"}) as api:
        with api.messages.create(**messages(SLOW), stream=True) as answer:
            assert next(event for event in answer if event.type == "content_block_delta")
        assert seen.ended("messages-closed")["outcome"] == "cancelled"
