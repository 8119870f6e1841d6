"""What a request asks of the gateway itself: controls from its headers and its body, above the settings.

Owns the names, ranges and order of precedence of the controls (docs/controls.md lists them). It must not know how one is carried out.
A header wins over the body, the body over the settings. A value of the wrong type or out of range is a Failure that names its field;
null is as if the field were not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import UNSET

from gateway.dialects.reforms import FORMATS, Format, Wish
from gateway.errors import Failure
from gateway.settings import Reasoning
from gateway.wire.headers import first

PAGE_TOKENS: Final = 240  # about a screen of reasoning
BACKOFF_MS: Final = 80  # long enough for a browser to lay out a page, too short for a reader to miss it
CLUSTER_TOKENS: Final = 24  # what `max_reasoning_clusters` counts in
_MOST_TOKENS: Final = 1_000_000  # more than any model's context is a mistake of unit
_MOST_BACKOFF_MS: Final = 10_000  # the default heartbeat is 15 s: a pause must not look like silence
# Values of other servers' `reasoning_format` (Groq; llama.cpp): theirs to act on, so they pass.
FOREIGN_FORMATS: Final = frozenset({"parsed", "raw", "none", "auto", "deepseek", "deepseek-legacy"})


class Carried(msgspec.Struct, gc=False):
    """The members of a request's body that may be controls."""

    chunk_aggr: Any = UNSET
    reasoning_chunk_buffer: Any = UNSET
    max_reasoning_tokens: Any = UNSET
    stream_reasoning: Any = UNSET
    reasoning_cluster: Any = UNSET
    max_reasoning_clusters: Any = UNSET
    cluster_strategy: Any = UNSET
    page_token_budget: Any = UNSET
    backoff_ms: Any = UNSET
    reasoning_format: Any = UNSET
    extra_body: msgspec.Raw | msgspec.UnsetType = UNSET
    stream_options: Any = UNSET


NAMES: Final = tuple(name for name in Carried.__struct_fields__ if name != "stream_options")
STREAM_OPTIONS: Final = ("cluster_hint", "cursor_resume", "chunk_overlap")


@dataclass(frozen=True, slots=True)
class Paging:
    """Reasoning in pages of so many tokens, with a pause between."""

    page_tokens: int = PAGE_TOKENS
    backoff_s: float = BACKOFF_MS / 1000


@dataclass(frozen=True, slots=True)
class Controls:
    """raw: None leaves it to the settings. frame_tokens: the most in one frame. held_reasoning_tokens: the most held back.

    reasoning_limit: the most that was asked for, for an upstream that knows such a limit; `wish` holds the gateway's own.
    cursor: UTF-16 units of content that the client has already; None where it wants no stream that it could go on with.
    """

    raw: bool | None = None
    frame_tokens: int | None = None
    held_reasoning_tokens: float | None = None
    paging: Paging | None = None
    wish: Wish = field(default_factory=Wish)
    reasoning_limit: int | None = None
    budget_usd: float | None = None
    timing: bool = False
    cursor: int | None = None


class _InvalidError(Exception):
    def __init__(self, name: str, wanted: str) -> None:
        super().__init__(name)
        self.failure = Failure("invalid_control", f"{name} takes {wanted}.", param=name)


def controls_of(
    carried: Carried,
    fields: Iterable[tuple[bytes, bytes]],
    *,
    dialect: str,
    reasoning: Reasoning,
    model: str | None = None,
    upstream_limits: bool = False,
) -> Controls | Failure:
    """`dialect`: whose formats of reasoning there are. `upstream_limits`: the upstream itself is told `max_reasoning_tokens`."""
    try:
        return _read(carried, list(fields), dialect, reasoning, model, upstream_limits)
    except _InvalidError as error:
        return error.failure


def _read(
    carried: Carried, fields: list[tuple[bytes, bytes]], dialect: str, reasoning: Reasoning, model: str | None, upstream_limits: bool
) -> Controls:
    options = carried.stream_options if isinstance(carried.stream_options, dict) else {}
    if options.get("chunk_overlap") not in (None, 0) or isinstance(options.get("chunk_overlap"), bool):
        raise _InvalidError("stream_options.chunk_overlap", "0 only: frames never overlap")
    hint = _flag(options.get("cluster_hint"), "stream_options.cluster_hint")
    mode = _word(fields, b"x-client-streams", ("raw", "smooth"))
    limit = _whole(carried.max_reasoning_tokens, "max_reasoning_tokens", 0, _MOST_TOKENS)
    return Controls(
        raw=mode == "raw" if mode else None if hint is None else not hint,
        frame_tokens=_whole(carried.chunk_aggr, "chunk_aggr", 1, 10_000),
        held_reasoning_tokens=_held(carried),
        paging=_paging(carried),
        wish=Wish(
            format=_format(carried, dialect, reasoning),
            tagged=_word(fields, b"x-cluster", ("true", "false")) == "true" and dialect == "chat",
            most_tokens=None if upstream_limits else limit,
            tags=reasoning.tags,
            begins_inside=model in reasoning.begins_inside,
        ),
        reasoning_limit=limit,
        budget_usd=_amount(fields, b"x-budget-usd"),
        timing=_word(fields, b"x-stream-timing", ("true", "false")) == "true",
        cursor=_whole(options.get("cursor_resume"), "stream_options.cursor_resume", 0, 2**53),
    )


def _format(carried: Carried, dialect: str, reasoning: Reasoning) -> Format:
    known = FORMATS.get(dialect, ("as_is",))
    asked = _present(carried.reasoning_format)
    delivered = _flag(carried.stream_reasoning, "stream_reasoning")
    if asked is not None and not (isinstance(asked, str) and asked in FOREIGN_FORMATS):
        if asked not in known:
            raise _InvalidError("reasoning_format", f"{_listed(known)} with this API")
    elif delivered and reasoning.format == "hidden":
        asked = "as_is"
    else:
        asked = reasoning.format if reasoning.format in known else "as_is"
    if delivered is False and "hidden" in known:
        return "hidden"
    return next(each for each in known if each == asked)


def _held(carried: Carried) -> float | None:
    """The most reasoning tokens held, of all that asks for it."""
    tokens = _whole(carried.reasoning_chunk_buffer, "reasoning_chunk_buffer", 0, _MOST_TOKENS)
    clusters = _whole(carried.max_reasoning_clusters, "max_reasoning_clusters", 0, _MOST_TOKENS)
    asked = [float(tokens)] if tokens is not None else []
    if clusters is not None:
        asked.append(float(clusters * CLUSTER_TOKENS))
    if _flag(carried.reasoning_cluster, "reasoning_cluster") is False:
        asked.append(0.0)
    return min(asked, default=None)


def _paging(carried: Carried) -> Paging | None:
    tokens = _whole(carried.page_token_budget, "page_token_budget", 1, _MOST_TOKENS)
    backoff_ms = _whole(carried.backoff_ms, "backoff_ms", 0, _MOST_BACKOFF_MS)
    strategy = _present(carried.cluster_strategy)
    if strategy is None:
        return None
    if strategy != "paged":
        raise _InvalidError("cluster_strategy", '"paged"')
    return Paging(PAGE_TOKENS if tokens is None else tokens, (BACKOFF_MS if backoff_ms is None else backoff_ms) / 1000)


# Values


def _present(value: Any) -> Any:
    return None if value is UNSET else value


def _flag(value: Any, name: str) -> bool | None:
    value = _present(value)
    if value is None or isinstance(value, bool):
        return value
    raise _InvalidError(name, "true or false")


def _whole(value: Any, name: str, low: int, high: int) -> int | None:
    value = _present(value)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _InvalidError(name, f"a whole number from {low} to {high}")
    return value


def _word(fields: list[tuple[bytes, bytes]], name: bytes, words: tuple[str, ...]) -> str | None:
    """A header that is one of some words, in any case."""
    value = first(fields, name)
    if value is None:
        return None
    word = value.strip().lower().decode("latin-1")
    if word not in words:
        raise _InvalidError(name.decode(), _listed(words))
    return word


def _amount(fields: list[tuple[bytes, bytes]], name: bytes) -> float | None:
    """A header that is an amount of money."""
    value = first(fields, name)
    if value is None:
        return None
    digits = value.strip().decode("latin-1")
    if not digits.isascii() or not digits.replace(".", "", 1).isdigit():
        raise _InvalidError(name.decode(), "an amount in US dollars, such as 0.25")
    return float(digits)


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
