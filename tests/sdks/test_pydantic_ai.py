"""pydantic-ai on all three APIs: an agent's run, its tool called and answered, is that of a direct call."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any, ClassVar, Final

import pytest
from pydantic_ai import Agent, AgentRunResultEvent, ModelSettings, PartDeltaEvent, PartStartEvent
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from .answers import Outcome
from .cases import CHAT, SLOW, Params
from .lasting import lasting
from .places import Headers, Pairs, Places, play_async
from .promises import Promises
from .seen import Seen

KINDS: Final = ("chat", "responses", "messages")
_NEW_EACH_TIME: Final = ("timestamp", "run_id", "conversation_id", "provider_url", "signature")
_TEXTS: Final = ("content", "content_delta", "args", "args_delta")


def asked(model: str, prompt: str = "Write the file.") -> Params:
    return {"model": model, "prompt": prompt}


CASES: Final[dict[str, Params]] = {
    "reasoning under its other name": asked("reasoning-field"),
    "deltas of a hundred tokens": asked("large-deltas"),
    "a tool called and its result answered": asked("tool-call"),
    "the whole answer in one write": asked("instant"),
    "every kind of character": asked("echo", CHAT["every kind of character"]["messages"][0]["content"]),
}


def model_of(kind: str, url: str, name: str) -> Model:
    if kind == "messages":
        return AnthropicModel(name, provider=AnthropicProvider(api_key="sk-test", base_url=url))
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="sk-test")
    return OpenAIChatModel(name, provider=provider) if kind == "chat" else OpenAIResponsesModel(name, provider=provider)


async def stream(kind: str, url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    settings = ModelSettings(extra_headers=dict(headers), max_tokens=8192, **more)
    agent = Agent(model_of(kind, url, params["model"]), model_settings=settings)
    agent.tool_plain(write_file)
    text, deltas, answer, error = "", 0, None, None
    try:
        async with agent, agent.run_stream_events(params["prompt"]) as events:
            async for event in events:
                if isinstance(event, PartStartEvent | PartDeltaEvent):
                    piece = event.part if isinstance(event, PartStartEvent) else event.delta
                    text += "".join(str(getattr(piece, name, None) or "") for name in _TEXTS)
                    deltas += 1
                elif isinstance(event, AgentRunResultEvent):
                    answer = json.loads(ModelMessagesTypeAdapter.dump_json(event.result.new_messages()))
    except AgentRunError as raised:
        error = {"kind": type(raised).__name__, "message": str(raised), "status": getattr(raised, "status_code", None)}
    return Outcome(lasting(answer, {}, _is_id, _NEW_EACH_TIME), text, error, deltas)


def write_file(path: str, content: str) -> str:
    """Writes a file."""
    return f"{path}: {len(content)} characters"


def _is_id(name: str) -> bool:
    return name == "id" or (name.endswith("_id") and name not in _NEW_EACH_TIME)


class PydanticPromises(Promises):
    kind: str
    cases = CASES
    asked = staticmethod(asked)

    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play_async(places, cls.everything(), partial(stream, cls.kind))

    @pytest.mark.parametrize("model", ["rate-limited", "overloaded", "a-model-that-nobody-has"])
    def test_a_refused_request_raises_what_a_direct_call_raises(self, played: Pairs, model: str) -> None:
        """But for the request's id, which stands in the body that Anthropic's errors are told with."""
        pair = played[model]
        assert pair.direct.error is not None
        if self.kind != "messages":
            assert pair.gateway == pair.direct
        assert pair.gateway.error is not None
        assert [pair.gateway.error[name] for name in ("kind", "status")] == [pair.direct.error[name] for name in ("kind", "status")]


class TestChat(PydanticPromises):
    kind = "chat"
    cut_short: ClassVar = {
        "dies-half-way": {"kind": "ModelAPIError"},
        "no-finish": {"kind": "ModelAPIError"},
    }


class TestResponses(PydanticPromises):
    kind = "responses"
    cut_short = TestChat.cut_short


class TestMessages(PydanticPromises):
    kind = "messages"
    cut_short: ClassVar = {
        "dies-half-way": {"kind": "ModelServerError", "status": 500},
        "no-finish": {"kind": "ModelServerError", "status": 500},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_left_is_cancelled_at_the_upstream(places: Places, seen: Seen, kind: str) -> None:
    name = f"pydantic-ai-{kind}"

    async def leave() -> None:
        agent = Agent(model_of(kind, places.gateway, SLOW), model_settings=ModelSettings(extra_headers={"x-request-id": name}))
        async with agent, agent.run_stream_events("Write the file.") as events:
            async for event in events:
                if isinstance(event, PartDeltaEvent):
                    break
        assert (await asyncio.to_thread(seen.ended, name))["outcome"] == "cancelled"

    places.run(leave())
