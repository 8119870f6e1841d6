"""Streams that are resumable, with the SDKs people have: ids and heartbeats behind them are read, and who comes back goes on exactly there."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from . import processes
from .cases import HEADERS, chat, messages, responses
from .seen import SAFETY_S, Seen

HEARTBEATS = "heartbeat: {every: 100ms}\n"
# Clusters with pauses between them, raw: so there are heartbeats between its events.
BURSTY, AT_ITS_PACE = "reasoning-field", {"x-client-streams": "raw", "x-simulate-speed": "2"}
ODD = "Grüße 👩‍👩‍👧‍👦 🇩🇪 漢字 𝔘𝔫𝔦 " * 20


@dataclass(frozen=True)
class Place:
    url: str
    seen: Seen

    def openai(self, **headers: str) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key="sk-test", max_retries=0, default_headers={**HEADERS, **headers})

    def anthropic(self, **headers: str) -> Anthropic:
        return Anthropic(base_url=self.url, api_key="sk-test", max_retries=0, default_headers={**HEADERS, **headers})

    def generations(self, name: str) -> int:
        with urllib.request.urlopen(f"{self.seen.simulator}/_sim/stats", timeout=SAFETY_S) as answer:
            return sum(entry["request_id"] == name for entry in json.load(answer)["log"])


@pytest.fixture(scope="module")
def place(simulator: str, seen: Seen, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with processes.gateway(simulator, tmp_path_factory.mktemp("resuming") / "log", HEARTBEATS) as url:
        yield Place(url, seen)


def texts(stream: Any, at_most: int = 10**9) -> str:
    out = ""
    for chunk in stream:
        out += "".join(choice.delta.content or "" for choice in chunk.choices)
        if len(out) >= at_most:
            break
    return out


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@pytest.mark.parametrize("characters", [1, 60, 300, 500])
def test_openai_goes_on_by_the_text_that_it_has(place: Place, characters: int) -> None:
    name = f"resumed-by-cursor-{characters}"
    params = chat("echo", messages=[{"role": "user", "content": ODD}])
    with place.openai(**{"Idempotency-Key": name, "x-request-id": name}) as api:
        with api.chat.completions.create(**params, stream=True) as stream:
            had = texts(stream, characters)
        options = {"cursor_resume": utf16(had)}
        with api.chat.completions.create(**params, stream=True, stream_options=options) as stream:  # type: ignore[call-overload]
            rest = texts(stream)
    assert had + rest == ODD
    assert place.generations(name) == 1


def test_openai_goes_on_behind_the_last_event_that_it_had(place: Place) -> None:
    name = "resumed-by-event"
    params = chat("smooth-then-clusters")
    with place.openai(**{"Idempotency-Key": name, "x-request-id": name}) as api:
        had = []
        for _ in range(4):
            extra = {"Last-Event-ID": had[-1].id} if had else {}
            with api.chat.completions.create(**params, stream=True, extra_headers=extra) as stream:
                for event in stream._iter_events():  # the SDK's own reading of ids, which chunks do not show
                    had.append(event)
                    if len(had) % 40 == 0:
                        break
        with api.chat.completions.create(**params, stream=True) as stream:
            whole = list(stream._iter_events())
    assert [event.data for event in had] == [event.data for event in whole[: len(had)]]
    assert [event.id for event in whole] == [str(number) for number in range(1, len(whole) + 1)]
    assert whole[-1].data == "[DONE]"
    assert place.generations(name) == 1


def test_openai_reads_heartbeats_between_events_with_ids(place: Place) -> None:
    with place.openai(**{"Idempotency-Key": "heartbeats", **AT_ITS_PACE}) as api:
        with api.chat.completions.with_raw_response.create(**chat(BURSTY), stream=True).parse() as stream:
            had = texts(stream)
    with place.openai() as api:
        assert had == texts(api.chat.completions.create(**chat(BURSTY), stream=True))
    with urllib.request.urlopen(f"{place.url}/metrics", timeout=SAFETY_S) as answer:
        counted = [line for line in answer.read().decode().splitlines() if line.startswith("decluster_heartbeats_total")]
    assert sum(float(line.split()[-1]) for line in counted) > 0


def test_openai_retrieves_a_response_from_the_number_that_it_had(place: Place) -> None:
    name = "retrieved"
    with place.openai(**{"Idempotency-Key": name, "x-request-id": name}) as api:
        had: list[Any] = []
        with api.responses.create(**responses("smooth-then-clusters"), stream=True) as stream:
            for event in stream:
                had.append(event)
                if len(had) == 20:
                    break
        identity = had[0].response.id
        with api.responses.retrieve(identity, stream=True, starting_after=had[-1].sequence_number) as stream:
            had += stream
    assert [event.sequence_number for event in had] == list(range(len(had)))
    assert had[-1].type == "response.completed"
    said = "".join(event.delta for event in had if event.type == "response.output_text.delta")
    assert said == had[-1].response.output_text
    assert place.generations(name) == 1


def test_anthropic_goes_on_behind_the_last_event_that_it_had(place: Place) -> None:
    name = "resumed-messages"
    params = messages("large-deltas")
    with place.anthropic(**{"Idempotency-Key": name, "x-request-id": name}) as api:
        had: list[Any] = []
        with api.messages.create(**params, stream=True) as stream:
            for event in stream._iter_events():
                if event.event != "ping":
                    had.append(event)
                if len(had) == 30:
                    break
        with api.messages.create(**params, stream=True, extra_headers={"Last-Event-ID": had[-1].id}) as stream:
            had += [event for event in stream._iter_events() if event.event != "ping"]
        with api.messages.create(**params, stream=True) as stream:
            whole = [event for event in stream._iter_events() if event.event != "ping"]
    assert [event.data for event in had] == [event.data for event in whole]
    assert whole[-1].event == "message_stop"
    assert place.generations(name) == 1
