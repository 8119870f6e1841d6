"""How log records become lines on stderr: one JSON object each, or text for a person at a terminal.

Owns the form and where every library's records go. It must not know what is logged; who logs keeps keys, prompts and answers
out. Invariants: one line a record in JSON; no value, however odd, makes logging fail or a line grow beyond its bounds.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, TextIO

STRING_CHARS: Final = 8192  # of one value: a traceback's end fits, a body that slipped in does not
ITEMS: Final = 100  # of one list or mapping
DEPTH: Final = 4  # of values in values; ours are flat
LINE_CHARS: Final = 2**16  # of a line; one that is longer loses its extra fields, which are what can grow

# At debug they write headers, keys among them (hpack, h11, httpcore); at info a line for every upstream request (httpx).
_TALKATIVE: Final = ("httpx", "httpcore", "h2", "hpack", "h11", "asyncio", "uvicorn.asgi")
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_OWN_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_ESCAPED: Final = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)  # what ends a line or moves a terminal's cursor
_CONTROLS: Final = {code: chr(code).encode("unicode_escape").decode("ascii") for code in _ESCAPED}


def setup(level: str, format: str, stream: TextIO | None = None) -> logging.Handler:
    """Routes all records of this process to `stream` (stderr unless given), and those of an earlier call no longer.

    level: debug, info, warning or error. format: json or text. uvicorn is to be run with `log_config=None`.
    """
    handler = _Handler(sys.stderr if stream is None else stream)
    handler.setFormatter(TextFormatter() if format == "text" else JsonFormatter())
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()  # its own would print each record a second time
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    access = logging.getLogger("uvicorn.access")  # we write a line at a request's end; this one stands at the response's start
    access.handlers.clear()
    access.propagate = False
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    return handler


class _Handler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:
        """A stream that cannot be written (a closed terminal, a full disk) is no reason to stop serving."""


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        trace = _trace(record)
        if trace:
            fields["traceback"] = trace
        extras = {name if name not in fields else f"{name}_": value for name, value in _extras(record).items()}
        line = _json(fields | extras)
        return line if len(line) <= LINE_CHARS else _json(fields | {"dropped": list(extras)[:ITEMS]})


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extras = " ".join(
            f"{name}={value if isinstance(value, str) and value.isalnum() else json.dumps(value, ensure_ascii=False)}"
            for name, value in _extras(record).items()
        )
        line = f"{_time(record)} {record.levelname.lower():<7} {_message(record)}{'  ' if extras else ''}{extras}"
        trace = _trace(record)
        line = line.translate(_CONTROLS)
        return (f"{line}\n{trace}" if trace else line).encode("utf-8", "backslashreplace").decode()


def plain(value: object, depth: int = 0) -> Any:
    """`value` as JSON can hold it: bounded, finite, without cycles; what has no such form by its repr."""
    try:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):  # str() of thousands of digits is an error
            return int(value) if -(2**63) <= value < 2**64 else "an integer beyond 64 bits"
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, str):
            return _cut(str.__str__(value))
        if depth < DEPTH and isinstance(value, Mapping):
            return {_key(key): plain(item, depth + 1) for key, item in islice(value.items(), ITEMS)}
        if depth < DEPTH and isinstance(value, (list, tuple, set, frozenset)):
            return [plain(item, depth + 1) for item in islice(value, ITEMS)]
        return _cut(repr(value))
    except Exception as error:  # a repr, a comparison or an iteration of somebody's own
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


def _key(key: object) -> str:
    return str(plain(key, DEPTH))


def _cut(text: str) -> str:
    return text if len(text) <= STRING_CHARS else f"{text[:STRING_CHARS]}… ({len(text)} characters)"


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    try:
        return _cut(record.getMessage())
    except Exception as error:  # arguments that do not fit the format
        return f"{plain(record.msg)} (its arguments do not fit: {type(error).__name__})"


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {name: plain(value) for name, value in vars(record).items() if name not in _OWN_FIELDS}


def _trace(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append("".join(traceback.format_exception(*record.exc_info)).rstrip())
    if record.stack_info:
        parts.append(record.stack_info)
    trace = "\n".join(parts)
    return trace if len(trace) <= STRING_CHARS else f"…{trace[-STRING_CHARS:]}"
