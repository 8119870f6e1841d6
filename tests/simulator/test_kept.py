"""A response that was streamed can be had again: whole, or event by event from any place on."""

from __future__ import annotations

import asyncio

import pytest

from gateway.simulator.app import Simulator
from gateway.simulator.kept import Shelf

from .asking import Answer, VirtualTime, ask, request


def streamed(app: Simulator, time: VirtualTime, model: str = "large-deltas") -> Answer:
    return ask("/v1/responses", request("responses", model, stream=True), app=app, time=time)


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def app(time: VirtualTime) -> Simulator:
    return Simulator(time.clock, time.sleep)


def test_a_stream_that_is_had_again_is_the_same_from_any_place_on(app: Simulator, time: VirtualTime) -> None:
    first = streamed(app, time)
    events = first.events()
    name = events[0][1]["response"]["id"]
    for after in (-1, 0, 7, len(events) - 2):
        again = ask(f"/v1/responses/{name}?stream=true&starting_after={after}", method="GET", app=app, time=time)
        assert (again.status, again.complete) == (200, True)
        assert again.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert again.events() == events[after + 1 :]
    assert ask(f"/v1/responses/{name}?stream=true", method="GET", app=app, time=time).body == first.body


def test_a_response_that_is_had_again_without_a_stream_is_the_last_events(app: Simulator, time: VirtualTime) -> None:
    events = streamed(app, time).events()
    whole = ask(f"/v1/responses/{events[0][1]['response']['id']}", method="GET", app=app, time=time)
    assert whole.json() == events[-1][1]["response"]


@pytest.mark.parametrize(("path", "status"), [("resp_unknown?stream=true", 404), ("resp_unknown", 404)])
def test_a_response_that_nobody_knows_is_not_found(app: Simulator, path: str, status: int) -> None:
    assert ask(f"/v1/responses/{path}", method="GET", app=app).status == status


def test_a_place_that_is_no_number_is_refused(app: Simulator, time: VirtualTime) -> None:
    name = streamed(app, time).events()[0][1]["response"]["id"]
    assert ask(f"/v1/responses/{name}?stream=true&starting_after=x", method="GET", app=app, time=time).status == 400


def test_a_response_in_the_background_streams_as_any_other(app: Simulator, time: VirtualTime) -> None:
    answer = ask("/v1/responses", request("responses", "steady", stream=True, background=True), app=app, time=time)
    assert answer.complete
    assert answer.events()[-1][0] == "response.completed"
    assert [data["sequence_number"] for _, data in answer.events()] == list(range(len(answer.events())))


def test_who_follows_a_response_that_is_being_made_gets_what_comes() -> None:
    async def work() -> list[bytes]:
        kept = Shelf().keep("r", dict)
        kept.add(b"data: 0\n\ndata: 1\n\n")
        following = asyncio.create_task(_all(kept.follow(0)))
        await asyncio.sleep(0)
        kept.add(b"data: 2\n\n")
        await asyncio.sleep(0)
        kept.finish()
        return await following

    assert asyncio.run(work()) == [b"data: 1\n\n", b"data: 2\n\n"]


async def _all(following: object) -> list[bytes]:
    return [data async for data in following]  # type: ignore[attr-defined]


def test_only_the_latest_responses_are_kept() -> None:
    shelf = Shelf()
    for number in range(100):
        shelf.keep(str(number), dict)
    assert shelf.find("35") is None
    assert shelf.find("36") is not None
