"""How many answers are made at once: turns in order, each given back once, whatever becomes of who waits."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import Failure
from gateway.server.asking import Refused
from gateway.server.gate import Gate

pytestmark = pytest.mark.anyio
LONG_S = 60.0  # a wait that no test comes to the end of
NO_TIME_S = 0.001


def gate(most: int | None = None, waiting: int = 100, wait_s: float = LONG_S) -> Gate:
    return Gate(asyncio.get_running_loop(), most, waiting, wait_s)


async def turns(*tasks: asyncio.Task[None]) -> list[bool]:
    """Which of them got in, once all that can happen has."""
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


def waits(found: Gate, client: str, most: int | None = None) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(found.wait(client, most))


async def test_without_a_limit_everybody_gets_in() -> None:
    found = gate()
    assert all(found.enter("a", None) for _ in range(1000))


async def test_the_limit_holds_over_all_clients() -> None:
    found = gate(2)
    assert [found.enter(client, None) for client in "abc"] == [True, True, False]
    found.leave("a")
    assert found.enter("c", None)


async def test_a_clients_own_limit_leaves_room_to_others() -> None:
    found = gate(10)
    assert [found.enter("a", 1), found.enter("a", 1), found.enter("b", 1)] == [True, False, True]


async def test_who_came_first_gets_the_first_place() -> None:
    found = gate(1)
    assert found.enter("a", None)
    first, second = waits(found, "b"), waits(found, "c")
    assert await turns(first, second) == [False, False]
    found.leave("a")
    assert await turns(first, second) == [True, False]
    found.leave("b")
    assert await turns(first, second) == [True, True]


async def test_nobody_passes_those_who_wait() -> None:
    found = gate(2)
    assert found.enter("a", None)
    assert found.enter("a", None)
    first = waits(found, "b")
    await turns(first)
    found.leave("a")
    assert not found.enter("c", None)
    assert await turns(first) == [True]


async def test_who_waits_for_its_own_limit_does_not_hold_up_others() -> None:
    found = gate(3)
    assert found.enter("a", 1)
    own = waits(found, "a", 1)
    await turns(own)
    assert found.enter("b", 1)
    other = waits(found, "b", 1)
    await turns(other)
    found.leave("b")
    assert await turns(own, other) == [False, True]


async def test_after_the_wait_the_refusal_says_whose_limit_it_is() -> None:
    found = gate(1, wait_s=NO_TIME_S)
    assert found.enter("a", 1)
    with pytest.raises(Refused) as own:
        await found.wait("a", 1)
    with pytest.raises(Refused) as whole:
        await found.wait("b", 1)
    assert [(refused.value.failure.code, refused.value.failure.http_status) for refused in (own, whole)] == [
        ("concurrency_limited", 429),
        ("overloaded", 503),
    ]
    assert all(dict(refused.value.failure.headers)[b"retry-after"].isdigit() for refused in (own, whole))


async def test_where_enough_wait_no_more_do() -> None:
    found = gate(1, waiting=1)
    assert found.enter("a", None)
    first = waits(found, "b")
    await turns(first)
    with pytest.raises(Refused):
        await found.wait("c", None)
    first.cancel()
    assert found.waiting in (0, 1)
    await turns(first)
    assert found.waiting == 0


async def test_a_place_that_came_too_late_is_given_on() -> None:
    found = gate(1)
    assert found.enter("a", None)
    gone, there = waits(found, "b"), waits(found, "c")
    await turns(gone, there)
    found.leave("a")  # b's turn has come,
    gone.cancel()  # and b leaves in the same moment
    assert await turns(gone, there) == [True, True]
    assert gone.cancelled()
    assert there.exception() is None


async def test_who_leaves_while_it_waits_takes_no_place() -> None:
    found = gate(1)
    assert found.enter("a", None)
    gone = waits(found, "b")
    await turns(gone)
    gone.cancel()
    await turns(gone)
    found.leave("a")
    assert found.enter("c", None)


async def test_at_the_end_all_who_wait_are_told() -> None:
    found = gate(1)
    assert found.enter("a", None)
    waiting = [waits(found, "b"), waits(found, "c")]
    await turns(*waiting)
    found.close(Failure("shutting_down", "It ends."))
    assert await turns(*waiting) == [True, True]
    assert [task.exception().failure.code for task in waiting] == ["shutting_down"] * 2  # type: ignore[union-attr]
