"""When an upstream says that it may be asked again."""

from __future__ import annotations

import json

import pytest

from gateway.policy.retry_after import told_in_error_s, told_wait_s

NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


def told(**fields: str) -> float | None:
    return told_wait_s([(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in fields.items()], NOW)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0.0), ("1", 1.0), (" 20 ", 20.0), ("1.5", 1.5), ("3600", 3600.0), ("999999999999", 999999999999.0)],
)
def test_seconds_are_read(value: str, seconds: float) -> None:
    assert told(retry_after=value) == seconds


@pytest.mark.parametrize(
    "value", ["²", "-5", "nan", "inf", "1e9", "", "1,1", "soon", "0x10", "9" * 16, "Fri, 99 Foo 2027", "{}", "1;q=2", "1_0"]
)
def test_garbage_is_as_if_it_were_not_there(value: str) -> None:
    assert told(retry_after=value) is None


def test_a_date_is_counted_from_now() -> None:
    assert told(retry_after="Fri, 15 Jan 2027 08:00:30 GMT") == 30.0


def test_a_date_in_the_past_is_at_once() -> None:
    assert told(retry_after="Fri, 15 Jan 2027 07:00:00 GMT") == 0.0


def test_a_date_is_counted_by_the_upstreams_own_clock_where_it_shows_it() -> None:
    assert told(retry_after="Fri, 15 Jan 2027 10:00:30 GMT", date="Fri, 15 Jan 2027 10:00:00 GMT") == 30.0


def test_milliseconds_win_over_seconds() -> None:
    assert told(retry_after_ms="300", retry_after="1") == 0.3


def test_milliseconds_that_are_garbage_leave_it_to_the_seconds() -> None:
    assert told(retry_after_ms="fast", retry_after="1") == 1.0


def test_no_field_says_nothing() -> None:
    assert told() is None


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ({"message": "Rate limit reached. Please try again in 1.2s. Visit"}, 1.2),
        ({"message": "Please try again in 6ms."}, 0.006),
        ({"message": "please retry after 20 seconds"}, 20.0),
        ({"message": "Please try again in 1m30s."}, 90.0),
        ({"message": "Please try again in 250 milliseconds"}, 0.25),
        ({"message": "limited", "retry_after": 2}, 2.0),
        ({"message": "limited", "retry_after_ms": "1500"}, 1.5),
        ({"message": "limited", "details": [{"@type": "x"}, {"retryDelay": "34.5s"}]}, 34.5),
        ({"message": "try again later"}, None),
        ({"message": "limited", "retry_after": True}, None),
        ({"message": "limited", "retry_after": -3}, None),
        ({"message": "limited", "retryDelay": "s"}, None),
        ({"message": 5}, None),
        ("limited", None),
    ],
)
def test_an_error_may_say_it(error: object, seconds: float | None) -> None:
    assert told_in_error_s(json.dumps({"error": error}).encode()) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("body", [None, b"", b"<html>", b"[1]", b'"try again in 1s"', b"{"])
def test_what_is_no_error_says_nothing(body: bytes | None) -> None:
    assert told_in_error_s(body) is None
