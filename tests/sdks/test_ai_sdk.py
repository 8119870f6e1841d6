"""Vercel's AI SDK: the parts of its stream through each of its providers, tools executed and answered, are those of a direct call."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import pytest

from .answers import Json, Outcome
from .cases import CHAT, SLOW, WRITE_FILE, Params
from .javascript import Node
from .lasting import lasting
from .places import Headers, Pair, Pairs, Places
from .promises import Promises
from .seen import Seen

SCRIPT: Final = "ai.mjs"
PROVIDERS: Final = ("chat", "responses", "compatible", "messages")
# Times, what was asked, and headers: another each time.
_NEW_EACH_TIME: Final = ("performance", "request", "timestamp", "headers", "responseHeaders", "responseBody", "url", "sequence_number")
_TEXTS: Final = ("text", "delta")


def asked(model: str, prompt: str = "Write the file.", **more: Any) -> Params:
    return {"model": model, "prompt": prompt, **more}


CASES: Final[dict[str, Params]] = {
    "reasoning under its other name": asked("reasoning-field"),
    "deltas of a hundred tokens": asked("large-deltas"),
    "a tool called and its result answered": asked("tool-call", tools={"write_file": WRITE_FILE["function"]["parameters"]}),
    "the token limit": asked("out-of-tokens"),
    "the whole answer in one write": asked("instant"),
    "every kind of character": asked("echo", CHAT["every kind of character"]["messages"][0]["content"]),
}


def job(provider: str, url: str, params: Params, headers: Headers, **more: Any) -> Json:
    return {"op": provider, "url": f"{url}/v1", "params": params, "headers": dict(headers), **more}


def outcome(result: Json) -> Outcome:
    """Of the parts of one stream. Deltas that follow each other are one."""
    ids: dict[str, str] = {}
    answer: list[Json] = []
    error, text, deltas = result["error"], "", 0
    for part in result["events"]:
        if part["type"] == "error":
            error = {**part["error"], "kind": part["error"]["name"]}
        part = lasting(part, ids, _is_id, _NEW_EACH_TIME)
        name = next((name for name in _TEXTS if name in part), None)
        if name is not None and part["type"].endswith("-delta"):
            text, deltas = text + part[name], deltas + 1
            if answer and {**answer[-1], name: None} == {**part, name: None}:
                answer[-1][name] += part[name]
                continue
        answer.append(part)
    return Outcome(answer, text, None if error is None else lasting(error, ids, _is_id, _NEW_EACH_TIME), deltas)


def _is_id(name: str) -> bool:
    return name.lower().endswith("id") and name != "modelId"


class ProviderPromises(Promises):
    provider: str
    cases = CASES
    asked = staticmethod(asked)
    cut_short: ClassVar = {
        "dies-half-way": {"kind": "AI_StreamProviderError", "code": "upstream_reset"},
        "no-finish": {"kind": "AI_StreamProviderError", "code": "upstream_incomplete"},
    }


@pytest.fixture(scope="class")
def played(request: pytest.FixtureRequest, places: Places, node: Node) -> Pairs:
    client: type[ProviderPromises] = request.cls
    cases = client.everything()
    jobs = [job(client.provider, url, params, headers) for params in cases.values() for url, headers in places.both()]
    results = [outcome(result) for result in node.jobs(SCRIPT, jobs)]
    return {name: Pair(*results[2 * i : 2 * i + 2]) for i, name in enumerate(cases)}


class TestChat(ProviderPromises):
    provider = "chat"


class TestResponses(ProviderPromises):
    provider = "responses"


class TestCompatible(ProviderPromises):
    provider = "compatible"


class TestMessages(ProviderPromises):
    provider = "messages"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stream_that_is_aborted_is_cancelled_at_the_upstream(places: Places, node: Node, seen: Seen, provider: str) -> None:
    name = f"ai-sdk-{provider}"
    both = (("direct", places.direct), ("gateway", places.gateway))
    jobs = [job(provider, url, asked(SLOW), {"x-request-id": f"{name}-{place}"}, leaveAfter=9) for place, url in both]
    direct, gateway = node.jobs(SCRIPT, jobs)
    assert direct["events"][-1]["type"] == "abort"
    assert gateway["events"][-1] == direct["events"][-1]
    assert seen.ended(f"{name}-gateway")["outcome"] == "cancelled"
