"""OpenAI's Python SDK on the Responses API: event by event what it gives without the gateway, but for how text is cut."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from .answers import Outcome, Taken, message, typed_outcome
from .cases import CUT_SHORT, RESPONSES, SLOW, Params, responses
from .places import Headers, Pairs, Places, play, play_async
from .promises import Promises
from .seen import Seen
from .test_openai_python import async_client, client, described


def stream(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    events = Taken()
    try:
        with client(url, headers, **more) as api, api.responses.create(**params, stream=True) as answer:
            for event in answer:
                events.take(event.to_dict())
    except openai.APIError as error:
        return typed_outcome(events, described(error))
    return typed_outcome(events)


async def astream(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    events = Taken()
    try:
        async with async_client(url, headers, **more) as api, await api.responses.create(**params, stream=True) as answer:
            async for event in answer:
                events.take(event.to_dict())
    except openai.APIError as error:
        return typed_outcome(events, described(error))
    return typed_outcome(events)


def stream_helped(url: str, params: Params, headers: Headers, **more: Any) -> Outcome:
    kinds: set[str] = set()
    try:
        with client(url, headers, **more) as api, api.responses.stream(**params) as answer:
            for event in answer:
                kinds.add(event.type)
            whole = message(answer.get_final_response().to_dict())
    except openai.APIError as error:
        return Outcome(None, "", described(error))
    except RuntimeError as error:  # the helper's own, of an event where it expected another
        return Outcome(None, "", {"kind": "RuntimeError", "message": str(error)})
    return Outcome((kinds - {"keepalive"}, whole), str(whole))


class ResponsesPromises(Promises):
    cases = RESPONSES
    asked = staticmethod(responses)

    @pytest.mark.parametrize("model", CUT_SHORT)
    def test_a_stream_that_is_cut_short_raises_after_all_text_that_came(self, played: Pairs, model: str) -> None:
        """This API tells a failure by an event, which this SDK hands out like any other."""
        pair = played[model]
        codes = {"dies-half-way": "upstream_reset", "no-finish": "upstream_incomplete"}
        last = pair.gateway.answer[-1]
        assert last["type"] == "response.failed"
        assert (last["response"]["status"], last["response"]["error"]["code"]) == ("failed", codes[model])
        assert pair.direct.text
        assert pair.gateway.text.startswith(pair.direct.text)


class TestSync(ResponsesPromises):
    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play(places, cls.everything(), stream)


class TestAsync(ResponsesPromises):
    @classmethod
    def play(cls, places: Places) -> Pairs:
        return play_async(places, cls.everything(), astream)


def test_the_whole_response_is_that_of_a_direct_call(places: Places) -> None:
    cases = {name: params for name, params in RESPONSES.items() if "limit" not in name}  # to this helper only a completed one is whole
    for name, pair in play(places, cases, stream_helped).items():
        assert pair.gateway == pair.direct, name


def test_a_stream_that_is_closed_early_is_cancelled_at_the_upstream(places: Places, seen: Seen) -> None:
    with client(places.gateway, {"x-request-id": "responses-closed"}) as api:
        with api.responses.create(**responses(SLOW), stream=True) as answer:
            assert next(event for event in answer if event.type == "response.output_text.delta")
        assert seen.ended("responses-closed")["outcome"] == "cancelled"


def test_a_response_is_had_again_from_any_place_on(places: Places) -> None:
    """What was seen of the first stream and what `starting_after` brings make the whole answer, none of it twice."""
    for url, headers in places.both():
        with client(url, headers) as api:
            with api.responses.create(**responses("steady"), stream=True) as answer:
                first = list(answer)
            name = first[0].response.id
            again = list(api.responses.retrieve(name, stream=True))
            later = list(api.responses.retrieve(name, stream=True, starting_after=first[40].sequence_number))
            whole = api.responses.retrieve(name)
        for events in (again, [*first[:41], *later]):
            assert text(events) == text(first) == whole.output_text
            assert events[-1].type == "response.completed"


def text(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")
