"""How long an answer that is no stream is waited for, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import httpx
import pytest

from gateway.errors import Failure
from gateway.relay.failures import in_the_answer
from gateway.relay.patience import Overdue, Parts, in_time
from gateway.settings import Clocks
from support.loop import run

HOUR_S = 3600.0
CLOCKS = Clocks(first_content=60.0, silence=10.0)
Seen = list[tuple[float, bytes]]


class Coming(httpx.AsyncByteStream):
    """Parts, each so many seconds after the one before was taken; then the end, or a hang."""

    def __init__(self, parts: Sequence[tuple[float, bytes]], hangs: bool = False) -> None:
        self.parts, self.hangs = parts, hangs

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for after_s, part in self.parts:
            await asyncio.sleep(after_s)
            yield part
        if self.hangs:
            await asyncio.Event().wait()


def read(
    body: Coming, clocks: Clocks = CLOCKS, *, began: float = 0.0, client_s: float = 0.0, says: Callable[[bytes], bool] = bool
) -> tuple[Seen, str, float]:
    """What came and when, how it ended, and when. client_s: what the client takes for each part."""

    async def reading() -> tuple[Seen, str, float]:
        loop, seen = asyncio.get_running_loop(), []
        try:
            async for part in Parts(httpx.Response(200, stream=body), loop, clocks, began, says):
                seen.append((loop.time(), part))
                await asyncio.sleep(client_s)
        except Overdue as overdue:
            return seen, in_the_answer(overdue).code, loop.time()
        return seen, "whole", loop.time()

    return run(reading())


def test_the_first_part_has_its_own_clock() -> None:
    assert read(Coming([], hangs=True)) == ([], "upstream_first_content_timeout", 60.0)
    assert read(Coming([(59.0, b"a")])) == ([(59.0, b"a")], "whole", 59.0)


def test_where_that_is_off_silence_counts_from_the_head() -> None:
    assert read(Coming([], hangs=True), Clocks(first_content=None, silence=10.0)) == ([], "upstream_silent", 10.0)


def test_silence_counts_from_part_to_part() -> None:
    assert read(Coming([(50.0, b"a"), (9.0, b"b")], hangs=True)) == ([(50.0, b"a"), (59.0, b"b")], "upstream_silent", 69.0)


def test_slow_but_steady_answers_pass_however_long_they_take() -> None:
    seen, end, at = read(Coming([(9.5, b"a")] * 1000))
    assert (len(seen), end, at) == (1000, "whole", 9500.0)


def test_the_time_that_a_slow_client_takes_is_not_the_upstreams() -> None:
    seen, end, _ = read(Coming([(9.0, b"a")] * 5), client_s=HOUR_S)
    assert (len(seen), end) == (5, "whole")
    assert read(Coming([(0.0, b"a")], hangs=True), client_s=HOUR_S)[1:] == ("upstream_silent", HOUR_S + 10.0)


def test_parts_that_say_nothing_are_no_life() -> None:
    parts = [(0.0, b"data"), *[(1.0, b":")] * 1000]
    assert read(Coming(parts), says=lambda part: part != b":")[1:] == ("upstream_silent", 10.0)
    assert read(Coming([(1.0, b":")] * 1000), says=lambda part: part != b":")[1:] == ("upstream_first_content_timeout", 60.0)


def test_the_total_counts_from_the_request() -> None:
    clocks = Clocks(total=100.0)
    assert read(Coming([(9.0, b"a")] * 1000), clocks, began=-50.0)[1:] == ("upstream_total_timeout", 50.0)
    assert read(Coming([], hangs=True), clocks, began=-50.0)[1:] == ("upstream_total_timeout", 50.0)


def test_what_is_there_already_is_given_however_late_it_is() -> None:
    async def later() -> bytes:
        response = httpx.Response(200, stream=httpx.ByteStream(b"abc"))
        parts = Parts(response, asyncio.get_running_loop(), Clocks(total=100.0), -HOUR_S)
        return b"".join([part async for part in parts])

    assert run(later()) == b"abc"


def test_with_all_clocks_off_it_waits_for_ever() -> None:
    clocks = Clocks(first_content=None, silence=None)
    assert read(Coming([(1000 * HOUR_S, b"a"), (1000 * HOUR_S, b"b")]), clocks)[1:] == ("whole", 2000 * HOUR_S)


@pytest.mark.parametrize(("total", "outcome"), [(None, "head"), (31.0, "head"), (29.0, "upstream_total_timeout")])
def test_the_head_is_waited_for_until_the_total_is_over(total: float | None, outcome: str) -> None:
    async def heading() -> str:
        await asyncio.sleep(30.0)
        return "head"

    async def waiting() -> tuple[str, float]:
        loop = asyncio.get_running_loop()
        head = await in_time(heading(), Clocks(total=total), 0.0)
        return head.code if isinstance(head, Failure) else head, loop.time()

    assert run(waiting()) == (outcome, min(30.0, total or HOUR_S))
