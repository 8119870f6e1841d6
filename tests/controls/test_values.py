"""Controls as values: what is read of a request, what is refused, and who wins."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.dialects.reforms import FORMATS
from gateway.errors import Failure
from gateway.policy.controls import Carried, Controls, Paging, controls_of
from gateway.settings import Reasoning

READ = msgspec.json.Decoder(Carried)
Fields = list[tuple[bytes, bytes]]


def read(
    body: dict[str, Any] | None = None, fields: Fields | None = None, dialect: str = "chat", reasoning: Reasoning | None = None, **how: Any
) -> Controls | Failure:
    carried = READ.decode(msgspec.json.encode(body or {}))
    return controls_of(carried, fields or [], dialect=dialect, reasoning=reasoning or Reasoning(), **how)


def taken(body: dict[str, Any] | None = None, fields: Fields | None = None, **how: Any) -> Controls:
    found = read(body, fields, **how)
    assert isinstance(found, Controls)
    return found


def test_a_request_without_controls_asks_for_nothing() -> None:
    assert taken() == Controls()
    assert not taken().wish.changes


@pytest.mark.parametrize("name", [name for name in Carried.__struct_fields__ if name not in ("extra_body", "stream_options")])
def test_null_is_as_if_the_field_were_not_there(name: str) -> None:
    assert read({name: None}) == Controls()


@pytest.mark.parametrize(
    ("body", "named"),
    [
        *(({name: wrong}, name) for name in ("chunk_aggr", "page_token_budget") for wrong in (0, -1, 1.5, "1", True, [], 10**9)),
        *(({name: wrong}, name) for name in ("reasoning_chunk_buffer", "max_reasoning_tokens") for wrong in (-1, 1.5, "1", False, {})),
        *(({name: wrong}, name) for name in ("max_reasoning_clusters", "backoff_ms") for wrong in (-1, 0.5, "80", True)),
        *(({name: wrong}, name) for name in ("stream_reasoning", "reasoning_cluster") for wrong in (0, 1, "true", [])),
        *(({"cluster_strategy": wrong}, "cluster_strategy") for wrong in ("pages", 1, True)),
        *(({"reasoning_format": wrong}, "reasoning_format") for wrong in ("text", 1, True, [], "HIDDEN")),
        ({"backoff_ms": 10_001}, "backoff_ms"),
        *(({"stream_options": {"cluster_hint": wrong}}, "stream_options.cluster_hint") for wrong in (0, "false", [])),
        *(({"stream_options": {"cursor_resume": wrong}}, "stream_options.cursor_resume") for wrong in (-1, "5", True, 1.5)),
        *(({"stream_options": {"chunk_overlap": wrong}}, "stream_options.chunk_overlap") for wrong in (1, -1, "0", False, [], 0.5)),
    ],
)
def test_a_wrong_value_is_a_400_that_names_the_field(body: dict[str, Any], named: str) -> None:
    failure = read(body)
    assert isinstance(failure, Failure)
    assert (failure.code, failure.http_status, failure.param) == ("invalid_control", 400, named)
    assert failure.message.startswith(f"{named} takes ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-client-streams", b"fast"),
        (b"x-client-streams", b""),
        (b"x-cluster", b"yes"),
        (b"x-stream-timing", b"1"),
        (b"x-budget-usd", b"-1"),
        (b"x-budget-usd", b"nan"),
        (b"x-budget-usd", b"1e3"),
        (b"x-budget-usd", b"."),
        (b"x-budget-usd", b"\xff"),
    ],
)
def test_a_wrong_header_is_a_400_that_names_it(name: bytes, value: bytes) -> None:
    failure = read(fields=[(name.upper(), value)])
    assert isinstance(failure, Failure)
    assert (failure.code, failure.param) == ("invalid_control", name.decode())


@pytest.mark.parametrize(("value", "usd"), [(b"0", 0.0), (b"0.25", 0.25), (b" 12 ", 12.0), (b".5", 0.5)])
def test_a_budget_is_an_amount(value: bytes, usd: float) -> None:
    assert taken(fields=[(b"x-budget-usd", value)]) == Controls(budget_usd=usd)


def test_a_cursor_is_a_place_and_no_overlap_is_nothing() -> None:
    assert taken({"stream_options": {"cursor_resume": 0, "chunk_overlap": 0, "include_usage": True}}) == Controls(cursor=0)
    assert taken({"stream_options": {"cursor_resume": 7}}) == Controls(cursor=7)
    assert taken({"stream_options": {"cursor_resume": None}}) == Controls()


def test_the_header_wins_over_the_hint_and_the_hint_over_the_settings() -> None:
    off, on = ({"stream_options": {"cluster_hint": hint}} for hint in (False, True))
    assert (taken().raw, taken(off).raw, taken(on).raw) == (None, True, False)
    assert taken(on, [(b"X-Client-Streams", b" RAW ")]).raw is True
    assert taken(off, [(b"x-client-streams", b"smooth")]).raw is False


def test_the_strictest_bound_on_held_reasoning_counts() -> None:
    assert taken({"reasoning_chunk_buffer": 100}).held_reasoning_tokens == 100
    assert taken({"reasoning_chunk_buffer": 100, "max_reasoning_clusters": 2}).held_reasoning_tokens == 48
    assert taken({"reasoning_cluster": False, "max_reasoning_clusters": 2}).held_reasoning_tokens == 0
    assert taken({"reasoning_cluster": True}).held_reasoning_tokens is None


def test_pages_have_a_size_and_a_pause() -> None:
    assert taken({"cluster_strategy": "paged"}).paging == Paging(240, 0.08)
    assert taken({"cluster_strategy": "paged", "page_token_budget": 10, "backoff_ms": 0}).paging == Paging(10, 0.0)
    assert taken({"page_token_budget": 10}).paging is None


def test_a_limit_is_the_upstreams_where_it_knows_one() -> None:
    own, theirs = taken({"max_reasoning_tokens": 5}), taken({"max_reasoning_tokens": 5}, upstream_limits=True)
    assert (own.wish.most_tokens, own.reasoning_limit) == (5, 5)
    assert (theirs.wish.most_tokens, theirs.reasoning_limit) == (None, 5)


@pytest.mark.parametrize("dialect", FORMATS)
def test_each_api_takes_the_forms_that_it_has(dialect: str) -> None:
    for asked in FORMATS["chat"]:
        found = read({"reasoning_format": asked}, dialect=dialect)
        if asked in FORMATS[dialect]:
            assert isinstance(found, Controls)
            assert found.wish.format == asked
        else:
            assert isinstance(found, Failure)
            assert "as_is" in found.message
    by_default = taken(dialect=dialect, reasoning=Reasoning(format="tagged"))
    assert by_default.wish.format == ("tagged" if dialect == "chat" else "as_is")  # a default is no demand


@pytest.mark.parametrize("theirs", ["parsed", "raw", "none", "auto", "deepseek"])
def test_other_servers_values_of_the_same_field_change_nothing_here(theirs: str) -> None:
    assert taken({"reasoning_format": theirs}) == Controls()


def test_stream_reasoning_withholds_or_delivers() -> None:
    hidden = Reasoning(format="hidden")
    assert taken({"stream_reasoning": False}).wish.format == "hidden"
    assert taken({"stream_reasoning": False, "reasoning_format": "reasoning"}).wish.format == "hidden"
    assert taken({"stream_reasoning": True}, reasoning=hidden).wish.format == "as_is"
    assert taken(reasoning=hidden).wish.format == "hidden"
    assert taken({"reasoning_format": "think_tags"}, reasoning=hidden).wish.format == "think_tags"


def test_tags_and_where_text_begins_come_from_the_settings() -> None:
    wish = taken(reasoning=Reasoning(tags=("seed",), begins_inside=("m",)), model="m").wish
    assert (wish.tags, wish.begins_inside, wish.changes) == (("seed",), True, False)


def test_marks_on_deltas_are_for_chat() -> None:
    header = [(b"x-cluster", b"True")]
    assert taken(fields=header).wish.tagged
    assert not taken(fields=header, dialect="messages").wish.tagged
    assert not taken(fields=[(b"x-cluster", b"false")]).wish.tagged
