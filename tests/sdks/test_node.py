"""OpenAI's and Anthropic's SDKs for JavaScript, on Node: what they give through the gateway is what they give without."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import pytest

from .answers import Json, Outcome, chat_outcome, message, typed_outcome
from .cases import CHAT, CUT_SHORT, MESSAGES, RESPONSES, SLOW, WRAPPED, Params, chat, messages, responses
from .javascript import Node
from .places import Headers, Pair, Pairs, Places
from .promises import Promises
from .seen import Seen


def job(operation: str, url: str, params: Params, headers: Headers, **more: Any) -> Json:
    prefix = "" if operation.startswith("messages") else "/v1"
    return {"op": operation, "url": url + prefix, "params": params, "headers": dict(headers), **more}


class NodePromises(Promises):
    script: str
    operation: str
    added_up: Callable[[Iterable[Json], Json | None], Outcome]

    @classmethod
    def play_on(cls, node: Node, places: Places) -> Pairs:
        asked = cls.everything()
        jobs = [job(cls.operation, url, params, headers) for params in asked.values() for url, headers in places.both()]
        results = [cls.outcome(result) for result in node.jobs(cls.script, jobs)]
        return {name: Pair(*results[2 * i : 2 * i + 2]) for i, name in enumerate(asked)}

    @classmethod
    def outcome(cls, result: Json) -> Outcome:
        return cls.added_up(result["events"], result["error"])


@pytest.fixture(scope="class")
def played(request: pytest.FixtureRequest, places: Places, node: Node) -> Pairs:
    client: type[NodePromises] = request.cls
    return client.play_on(node, places)


class TestChat(NodePromises):
    script = "openai.mjs"
    operation = "chat"
    added_up = staticmethod(chat_outcome)
    cut_short: ClassVar = {
        "dies-half-way": {"kind": "APIError", "code": "upstream_reset"},
        "no-finish": {"kind": "APIError", "code": "upstream_incomplete"},
    }


class TestResponses(NodePromises):
    cases = RESPONSES
    asked = staticmethod(responses)
    script = "openai.mjs"
    operation = "responses"
    added_up = staticmethod(typed_outcome)

    @pytest.mark.parametrize("model", CUT_SHORT)
    def test_a_stream_that_is_cut_short_raises_after_all_text_that_came(self, played: Pairs, model: str) -> None:
        """This API tells a failure by an event, which this SDK hands out like any other."""
        pair = played[model]
        assert pair.gateway.answer[-1]["type"] == "response.failed"
        assert pair.gateway.answer[-1]["response"]["error"]["code"] in ("upstream_reset", "upstream_incomplete")
        assert pair.gateway.text.startswith(pair.direct.text)


class TestMessages(NodePromises):
    cases = MESSAGES
    asked = staticmethod(messages)
    script = "anthropic.mjs"
    operation = "messages"
    cut_short: ClassVar = {
        "dies-half-way": {"kind": "APIError", "code": "upstream_reset"},
        "no-finish": {"kind": "APIError", "code": "upstream_incomplete"},
    }

    @staticmethod
    def added_up(events: Iterable[Json], error: Json | None) -> Outcome:
        """Without the request's id, which stands in the error's body and in its message; with the code, which stands in the body."""
        if error is not None and isinstance(error["body"], dict):
            body = {**error["body"], "request_id": None}
            error = {**error, "body": body, "message": None, "code": body["error"].get("code")}
        return typed_outcome(events, error)


def helped(result: Json) -> Outcome:
    """Of a job that used an SDK's helper."""
    whole = message(result.get("final"))
    if whole is not None:
        whole.pop("created", None)
    return Outcome(whole, str(whole), result["error"])


HELPERS = [
    ("openai.mjs", "chatHelper", {name: params for name, params in CHAT.items() if name in WRAPPED and "limit" not in name}),
    ("openai.mjs", "responsesHelper", {name: params for name, params in RESPONSES.items() if "limit" not in name}),
    ("anthropic.mjs", "messagesHelper", MESSAGES),
]


@pytest.mark.parametrize(("script", "operation", "cases"), HELPERS, ids=[operation for _, operation, _ in HELPERS])
def test_a_helpers_whole_answer_is_that_of_a_direct_call(
    places: Places, node: Node, script: str, operation: str, cases: dict[str, Params]
) -> None:
    jobs = [job(operation, url, params, headers) for params in cases.values() for url, headers in places.both()]
    results = [helped(result) for result in node.jobs(script, jobs)]
    for direct, gateway, name in zip(results[::2], results[1::2], cases, strict=True):
        assert direct.error is None, name
        assert gateway == direct, name


LEAVERS = [("openai.mjs", "chat", chat), ("openai.mjs", "responses", responses), ("anthropic.mjs", "messages", messages)]


@pytest.mark.parametrize(("script", "operation", "asked"), LEAVERS, ids=[operation for _, operation, _ in LEAVERS])
def test_a_stream_that_is_aborted_is_cancelled_at_the_upstream(
    places: Places, node: Node, seen: Seen, script: str, operation: str, asked: Callable[[str], Params]
) -> None:
    name = f"node-{operation}"
    direct, gateway = node.jobs(
        script,
        [
            job(operation, url, asked(SLOW), {"x-request-id": f"{name}-{place}"}, leaveAfter=6)
            for place, url in (("direct", places.direct), ("gateway", places.gateway))
        ],
    )
    assert gateway["events"]
    assert gateway["error"] == direct["error"]
    assert seen.ended(f"{name}-gateway")["outcome"] == "cancelled"
