"""Log lines: one JSON object each whatever is logged, text for people, uvicorn's records among them, nothing twice."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import logs

ROOT_LOGGER = logging.getLogger()
TOUCHED = ["uvicorn", "uvicorn.error", "uvicorn.access", "httpx", "httpcore", "h2", "hpack", "h11", "asyncio", "uvicorn.asgi"]


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Logging belongs to the whole process: what a test set up is taken back."""
    loggers = [ROOT_LOGGER, *map(logging.getLogger, TOUCHED)]
    before = [(one, list(one.handlers), one.level, one.propagate) for one in loggers]
    yield
    logging.captureWarnings(False)
    for one, handlers, level, propagate in before:
        one.handlers[:] = handlers
        one.setLevel(level)
        one.propagate = propagate


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=pytest.fail) for line in stream.getvalue().splitlines()]


def fail(why: str) -> None:
    raise ValueError(why)


def logged(message: object = "done", *args: object, level: int = logging.INFO, **extra: object) -> dict[str, Any]:
    stream = io.StringIO()
    logs.setup("debug", "json", stream)
    logging.getLogger("gateway.test").log(level, message, *args, extra=extra)
    (line,) = lines(stream)
    return line


def test_a_line_has_time_level_logger_message_and_its_own_fields() -> None:
    line = logged("request %s", 5, request_id="r-1", status=200, seconds=0.5, ok=True, model=None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "info",
        "logger": "gateway.test",
        "message": "request 5",
        "request_id": "r-1",
        "status": 200,
        "seconds": 0.5,
        "ok": True,
        "model": None,
    }


def test_a_field_does_not_displace_one_of_the_lines_own() -> None:
    line = logged("real", time="fake", logger="fake")
    assert (line["message"], line["logger"], line["logger_"], line["time_"]) == ("real", "gateway.test", "fake", "fake")


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Posing:
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError("no")


class Odd(IntEnum):
    ONE = 1


def test_odd_values_become_something_that_json_holds() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    line = logged(
        nan=float("nan"),
        infinity=float("-inf"),
        huge=10**5000,
        bytes_=b"\xff",
        surrogate="a\ud800b",
        newline="a\nb",
        cycle=cycle,
        keys={(1, 2): "x", None: "y", 3: "z"},
        unshowable=Unshowable(),
        posing=Posing(),
        enum=Odd.ONE,
        deep=[[[[[[[1]]]]]]],
        long="x" * 100_000,
        many=list(range(1000)),
        type_=int,
    )
    assert (line["nan"], line["infinity"], line["huge"]) == ("nan", "-inf", "an integer beyond 64 bits")
    assert (line["bytes_"], line["newline"], line["enum"]) == ("b'\\xff'", "a\nb", 1)
    assert line["keys"] == {"(1, 2)": "x", "None": "y", "3": "z"}
    assert "cannot be shown: RuntimeError" in line["unshowable"]
    assert line["long"].endswith("… (100000 characters)")
    assert len(line["many"]) == logs.ITEMS


def test_a_line_that_would_be_very_long_loses_its_fields_and_says_which() -> None:
    line = logged("kept", **{f"field_{n}": "x" * 8000 for n in range(20)})
    assert line["message"] == "kept"
    assert line["dropped"] == [f"field_{n}" for n in range(20)]
    assert "field_0" not in line


def test_arguments_that_do_not_fit_their_message_are_told_and_not_raised() -> None:
    def message(msg: object, *args: object) -> str:
        line = json.loads(logs.JsonFormatter().format(logging.makeLogRecord({"msg": msg, "args": args})))
        return str(line["message"])

    assert message("%d tokens", "many") == "%d tokens (its arguments do not fit: TypeError)"
    assert message("%s %s", "one").startswith("%s %s (its")
    assert "cannot be shown" in message(Unshowable())


def test_an_exception_becomes_a_field_of_the_same_line_which_keeps_its_end() -> None:
    stream = io.StringIO()
    logs.setup("info", "json", stream)
    try:
        fail("x" * 20_000 + "the end")
    except ValueError:
        logging.getLogger("gateway.test").exception("failed")
    (line,) = lines(stream)
    assert line["level"] == "error"
    assert line["traceback"].endswith("the end")
    assert len(line["traceback"]) <= logs.STRING_CHARS + 1


def test_text_is_for_people_and_one_line_too() -> None:
    stream = io.StringIO()
    logs.setup("info", "text", stream)
    logging.getLogger("gateway.test").warning("a\nforged line\x1b[31m", extra={"model": "o1", "path": "a b\u2028c", "n": 3})
    assert stream.getvalue()[25:] == 'warning a\\nforged line\\x1b[31m  model=o1 path="a b\\u2028c" n=3\n'
    assert stream.getvalue().count("\n") == 1


def test_text_shows_a_traceback_below_its_line() -> None:
    stream = io.StringIO()
    logs.setup("info", "text", stream)
    try:
        fail("why\ud800")
    except ValueError:
        logging.getLogger("gateway.test").exception("failed")
    first, *_, last = stream.getvalue().splitlines()
    assert first.endswith("error   failed")
    assert last == "ValueError: why\\ud800"


def test_levels_below_the_one_asked_for_are_not_written() -> None:
    stream = io.StringIO()
    logs.setup("warning", "json", stream)
    logging.getLogger("gateway.test").info("not this")
    logging.getLogger("gateway.test").warning("this")
    assert [line["message"] for line in lines(stream)] == ["this"]


def test_setting_up_again_replaces_the_first_and_doubles_nothing() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.setup("info", "json", first)
    logs.setup("info", "json", second)
    logging.getLogger("gateway.test").info("once")
    assert first.getvalue() == ""
    assert len(lines(second)) == 1


def test_handlers_of_others_stay() -> None:
    mine = logging.NullHandler()
    ROOT_LOGGER.addHandler(mine)
    logs.setup("info", "json", io.StringIO())
    assert mine in ROOT_LOGGER.handlers


def test_uvicorns_records_come_once_and_its_access_log_not_at_all() -> None:
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):  # as uvicorn leaves them
        logging.getLogger(name).addHandler(logging.StreamHandler(io.StringIO()))
        logging.getLogger(name).propagate = False
    stream = io.StringIO()
    logs.setup("info", "json", stream)
    logging.getLogger("uvicorn.error").info("Started", extra={"color_message": "\x1b[1mStarted"})
    logging.getLogger("uvicorn.access").info("GET / 200")
    (line,) = lines(stream)
    assert (line["logger"], line["message"]) == ("uvicorn.error", "Started")
    assert "color_message" not in line


@pytest.mark.parametrize("name", ["httpx", "httpcore.http11", "hpack.hpack", "h11"])
def test_libraries_that_write_headers_at_debug_are_kept_quiet(name: str) -> None:
    stream = io.StringIO()
    logs.setup("debug", "json", stream)
    logging.getLogger(name).debug("authorization: secret")
    logging.getLogger(name).info("POST https://upstream/")
    assert stream.getvalue() == ""


def test_python_warnings_become_lines_too() -> None:
    stream = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logs.setup("info", "json", stream)
        warnings.warn("careful", UserWarning, stacklevel=1)
        logging.captureWarnings(False)
    (line,) = lines(stream)
    assert (line["level"], line["logger"]) == ("warning", "py.warnings")
    assert "careful" in line["message"]


class ClosedTerminal(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_stream_that_cannot_be_written_stops_nothing_and_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("info", "json", ClosedTerminal())
    logging.getLogger("gateway.test").info("into the void")
    assert capsys.readouterr().err == ""


@settings(deadline=None, max_examples=100)
@given(
    st.text(),
    st.dictionaries(
        st.from_regex(r"x_[a-z]{0,5}", fullmatch=True),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.binary() | st.text(st.characters()) | st.complex_numbers(),
            lambda inner: (
                st.lists(inner, max_size=4) | st.dictionaries(st.floats() | st.text() | st.tuples(st.integers()), inner, max_size=4)
            ),
        ),
    ),
    st.sampled_from([logs.JsonFormatter(), logs.TextFormatter()]),
)
def test_whatever_is_logged_is_one_line_that_can_be_written(message: str, extra: dict[str, Any], formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord({"name": "x", "levelno": 20, "levelname": "INFO", "msg": message, **extra})
    line = formatter.format(record)
    assert len(line.encode().splitlines()) == 1
    if isinstance(formatter, logs.JsonFormatter):
        found = json.loads(line, parse_constant=pytest.fail)
        assert found["message"] == message
