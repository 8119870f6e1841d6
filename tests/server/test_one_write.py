"""A response's head leaves with what follows it in the same turn, and no later than the next."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gateway.server.cork import Cork


class Transport:
    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.writes.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


class Loop:
    def __init__(self) -> None:
        self.soon: list[Any] = []

    def call_soon(self, call: Any) -> None:
        self.soon.append(call)

    def turn(self) -> None:
        calls, self.soon = self.soon, []
        for call in calls:
            call()


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def cork(transport: Transport, loop: Loop) -> Cork:
    return Cork(cast(Any, transport), cast(Any, loop))


def test_head_and_body_are_one_write(cork: Cork, transport: Transport, loop: Loop) -> None:
    cork.write(b"head ")
    assert transport.writes == []
    cork.write(b"body")
    cork.write(b" more")
    loop.turn()
    assert transport.writes == [b"head body", b" more"]


def test_a_head_alone_leaves_in_the_next_turn(cork: Cork, transport: Transport, loop: Loop) -> None:
    cork.write(b"head")
    loop.turn()
    assert transport.writes == [b"head"]
    cork.write(b"body")
    assert transport.writes == [b"head", b"body"]


def test_a_close_lets_the_head_go_first(cork: Cork, transport: Transport, loop: Loop) -> None:
    cork.write(b"head")
    cork.close()
    loop.turn()
    assert transport.writes == [b"head"]
    assert transport.closed
