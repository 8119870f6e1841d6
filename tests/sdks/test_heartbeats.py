"""Which sign of life keeps which client waiting, tried on each with its idle clock shortened; and that none of them trips over one.

docs/clients.md has the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Final

import pytest

from . import (
    processes,
    test_ai_sdk,
    test_anthropic_python,
    test_langchain,
    test_litellm,
    test_node,
    test_openai_python,
    test_openai_responses,
    test_pydantic_ai,
)
from .answers import Json, Outcome
from .cases import AT_ONCE, Params, chat, messages, responses
from .javascript import Node
from .places import Headers, Places

pytestmark = test_litellm.pytestmark

CLOCK_S: Final = 2.0  # of each client, instead of minutes: long beside a busy machine's stalls
# At this speed there are 4 s of silence: in the first before any content, in the second in the middle of the answer.
SILENT, PAUSES, SPEED = "silent", "pauses", {"x-simulate-speed": "5"}
HANGS: Final = "hangs"
UNANSWERED: Final = "hangs-before-headers"
# Its clusters are 400 to 900 ms apart, and raw it is not paced: so there are heartbeats between its events.
BURSTY: Final = "reasoning-field"
BURSTY_HEADERS: Final = {"x-client-streams": "raw"}
SETTINGS: Final = "heartbeat: {{every: 300ms, style: {style}}}\nclocks: {{headers: 6s}}\n"
STYLES: Final = ("comment", "chunk", "auto")  # chunk: an event of the dialect's own, whichever it is


@dataclass(frozen=True)
class Client:
    """How it is asked, in a thread (`block`), on the loop (`wait`) or in Node (`script`, `operation`, `job`), and how its idle clock is set."""

    asked: Callable[[str], Params]
    clock: Json
    block: Callable[..., Outcome] | None = None
    wait: Callable[..., Awaitable[Outcome]] | None = None
    script: str = ""
    operation: str = ""
    job: Callable[..., Json] = test_node.job
    added_up: Callable[[Json], Outcome] = test_node.TestChat.outcome


_TIMEOUT: Final = {"timeout": CLOCK_S}
_CHUNK_TIMEOUT: Final = {"stream_chunk_timeout": CLOCK_S}
_IDLE: Final = {"idleMs": 1000 * CLOCK_S}
CLIENTS: Final = {
    "openai-python": Client(chat, _TIMEOUT, block=test_openai_python.stream),
    "openai-python helper": Client(chat, _TIMEOUT, block=test_openai_python.stream_helped),
    "openai-python async": Client(chat, _TIMEOUT, wait=test_openai_python.astream),
    "openai-python responses": Client(responses, _TIMEOUT, block=test_openai_responses.stream),
    "openai-python responses helper": Client(responses, _TIMEOUT, block=test_openai_responses.stream_helped),
    "openai-python responses async": Client(responses, _TIMEOUT, wait=test_openai_responses.astream),
    "anthropic-python": Client(messages, _TIMEOUT, block=test_anthropic_python.stream),
    "anthropic-python helper": Client(messages, _TIMEOUT, block=test_anthropic_python.stream_helped),
    "anthropic-python async": Client(messages, _TIMEOUT, wait=test_anthropic_python.astream),
    "langchain-openai": Client(chat, _TIMEOUT, block=test_langchain.stream),
    "langchain-openai async": Client(chat, _CHUNK_TIMEOUT, wait=test_langchain.astream),
    "langchain-openai responses async": Client(
        chat, _CHUNK_TIMEOUT, wait=partial(test_langchain.astream, use_responses_api=True, output_version="responses/v1")
    ),
    "litellm": Client(chat, _TIMEOUT, block=test_litellm.stream),
    "litellm async": Client(chat, _TIMEOUT, wait=test_litellm.astream),
    "openai-node": Client(chat, _IDLE, script="openai.mjs", operation="chat"),
    "openai-node helper": Client(chat, _IDLE, script="openai.mjs", operation="chatHelper", added_up=test_node.helped),
    "openai-node responses": Client(responses, _IDLE, script="openai.mjs", operation="responses", added_up=test_node.TestResponses.outcome),
    "openai-node responses helper": Client(responses, _IDLE, script="openai.mjs", operation="responsesHelper", added_up=test_node.helped),
    "anthropic-node": Client(messages, _IDLE, script="anthropic.mjs", operation="messages", added_up=test_node.TestMessages.outcome),
    "anthropic-node helper": Client(messages, _IDLE, script="anthropic.mjs", operation="messagesHelper", added_up=test_node.helped),
    **{
        f"ai-sdk {provider}": Client(
            test_ai_sdk.asked, _IDLE, script="ai.mjs", operation=provider, job=test_ai_sdk.job, added_up=test_ai_sdk.outcome
        )
        for provider in test_ai_sdk.PROVIDERS
    },
    **{
        f"pydantic-ai {kind}": Client(test_pydantic_ai.asked, _TIMEOUT, wait=partial(test_pydantic_ai.stream, kind))
        for kind in test_pydantic_ai.KINDS
    },
}
SCRIPTS: Final = ("openai.mjs", "anthropic.mjs", "ai.mjs")
# LangChain's clock looks at parsed events, and a comment is none. OpenAI's helpers refuse an event before `response.created`.
DEAF: Final = {"langchain-openai async", "langchain-openai responses async"}
STRICT: Final = {"openai-python responses helper", "openai-node responses helper"}


def suits(client: str, style: str, *, begun: bool) -> bool:
    """Whether heartbeats of this style keep it alive. begun: the upstream has said something before they come."""
    if style == "auto":  # what calls itself OpenAI's asynchronous SDK may be LangChain or the helper
        return begun or client != "langchain-openai responses async"
    return client not in (DEAF if style == "comment" else STRICT)


@dataclass(frozen=True)
class Try:
    """One request of every client. clocks: with their idle clocks shortened."""

    url: str
    model: str
    headers: Headers = field(default_factory=dict)
    clocks: bool = True


Key = tuple[str, str]  # client, try
Played = dict[Key, Outcome]


def play(places: Places, node: Node, tries: Mapping[str, Try]) -> Played:
    """Every client's every try, all at once."""
    asks = {(client, name): (CLIENTS[client], each) for client in CLIENTS for name, each in tries.items()}

    def arguments(client: Client, each: Try) -> tuple[tuple[str, Params, Headers], Json]:
        return (each.url, client.asked(each.model), each.headers), client.clock if each.clocks else {}

    async def wait() -> Played:
        running = {key: c.wait(*arguments(c, each)[0], **arguments(c, each)[1]) for key, (c, each) in asks.items() if c.wait}
        return dict(zip(running, await asyncio.gather(*running.values()), strict=True))

    def run(script: str) -> Played:
        jobs = {}
        for key, (client, each) in asks.items():
            if client.script == script:
                given, clock = arguments(client, each)
                jobs[key] = client.job(client.operation, *given, **clock)
        results = zip(jobs.items(), node.jobs(script, list(jobs.values())), strict=True)
        return {key: asks[key][0].added_up(result) for (key, _), result in results}

    with ThreadPoolExecutor(len(asks)) as pool:
        scripts = [pool.submit(run, script) for script in SCRIPTS]
        blocking = {
            key: pool.submit(c.block, *arguments(c, each)[0], **arguments(c, each)[1]) for key, (c, each) in asks.items() if c.block
        }
        played: Played = places.run(wait())
        for future in scripts:
            played |= future.result()
        return played | {key: future.result() for key, future in blocking.items()}


@pytest.fixture(scope="module")
def beating(simulator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A gateway for each style of heartbeat, in front of one that neither beats nor paces: that one answers with the first content and not
    before, so that heartbeats come before all that they could be made of."""
    folder = tmp_path_factory.mktemp("beating")
    with ExitStack() as stack:
        late = stack.enter_context(processes.gateway(simulator, folder / "late", "pacing: {mode: raw}\n"))
        yield {style: stack.enter_context(processes.gateway(late, folder / style, SETTINGS.format(style=style))) for style in STYLES}


@pytest.fixture(scope="module")
def whole(places: Places, node: Node, litellm: ModuleType) -> Played:
    """What comes without heartbeats and without pauses."""
    return play(places, node, {model: Try(places.direct, model, AT_ONCE, clocks=False) for model in (SILENT, PAUSES, BURSTY)})


@pytest.fixture(scope="module")
def waited(places: Places, node: Node, beating: dict[str, str], whole: Played) -> Played:
    tries = {f"{model} {style}": Try(url, model, SPEED) for style, url in beating.items() for model in (SILENT, PAUSES)}
    tries |= {f"{UNANSWERED} {style}": Try(beating[style], UNANSWERED) for style in ("comment", "chunk")}
    tries[BURSTY] = Try(beating["chunk"], BURSTY, BURSTY_HEADERS, clocks=False)
    tries[HANGS] = Try(places.direct, HANGS)
    return play(places, node, tries)


@pytest.mark.parametrize("client", CLIENTS)
def test_without_heartbeats_a_silent_upstream_is_too_much_for_it(waited: Played, client: str) -> None:
    assert waited[client, HANGS].error is not None


def pairs(*, begun: bool, suited: bool = True) -> list[tuple[str, str]]:
    return [(client, style) for client in CLIENTS for style in STYLES if suits(client, style, begun=begun) is suited]


def same(got: Outcome, whole: Outcome, client: str) -> bool:
    """OpenAI's helper makes its message of the first chunk's members, which may be a heartbeat's; pydantic-ai notes a response that does not
    begin with `response.created` as one that is fetched in the background."""
    assert whole.error is None
    assert whole.text
    return got == whole or (client in ("openai-python helper", "pydantic-ai responses") and (got.error, got.text) == (None, whole.text))


@pytest.mark.parametrize(("client", "style"), pairs(begun=False))
def test_heartbeats_before_the_first_content_keep_it_waiting(waited: Played, whole: Played, client: str, style: str) -> None:
    assert same(waited[client, f"{SILENT} {style}"], whole[client, SILENT], client)


@pytest.mark.parametrize(("client", "style"), pairs(begun=True))
def test_heartbeats_in_the_middle_of_an_answer_keep_it_waiting(waited: Played, whole: Played, client: str, style: str) -> None:
    assert same(waited[client, f"{PAUSES} {style}"], whole[client, PAUSES], client)


@pytest.mark.parametrize("client", [client for client in CLIENTS if client not in STRICT])
def test_heartbeats_between_events_of_all_kinds_change_nothing(waited: Played, whole: Played, client: str) -> None:
    assert same(waited[client, BURSTY], whole[client, BURSTY], client)


@pytest.mark.parametrize(("client", "style"), [pair for pair in pairs(begun=False) if pair[1] != "auto"])
def test_heartbeats_before_the_upstream_has_answered_lead_to_its_error(waited: Played, client: str, style: str) -> None:
    """The gateway gives up three times as late as the client would have."""
    outcome = waited[client, f"{UNANSWERED} {style}"]
    if client == "openai-python responses helper":
        assert outcome.error == {"kind": "RuntimeError", "message": "Expected to have received `response.created` before `error`"}
    elif "openai-python responses" in client:  # hands it out like any other event
        assert [(event["type"], event["code"]) for event in outcome.answer] == [("error", "upstream_headers_timeout")]
    else:
        assert "clocks.headers" in str(outcome.error)


@pytest.mark.parametrize(("client", "style"), pairs(begun=False, suited=False))
def test_what_the_table_of_clients_warns_of_is_so(waited: Played, client: str, style: str) -> None:
    """If this fails, a new version of the client is better: docs/clients.md and gateway/dialects/heartbeats.py may have to change."""
    error = waited[client, f"{SILENT} {style}"].error
    assert error is not None
    assert error["kind"] in ("StreamChunkTimeoutError", "RuntimeError", "OpenAIError")


@pytest.mark.parametrize("provider", test_ai_sdk.PROVIDERS)
def test_the_ai_sdks_own_clock_between_parts_heeds_no_heartbeat(places: Places, node: Node, beating: dict[str, str], provider: str) -> None:
    """`streamText({timeout: {chunkMs}})`, off by default, waits for parts of the answer alone. If this fails, it has learnt more."""
    clock = {"timeout": {"chunkMs": 1000 * CLOCK_S}}
    urls = [places.direct, *beating.values()]
    results = node.jobs("ai.mjs", [test_ai_sdk.job(provider, url, test_ai_sdk.asked(PAUSES), SPEED, **clock) for url in urls])
    assert ["Chunk timeout" in str(result["events"][-1].get("reason")) for result in results] == [True] * len(urls)
