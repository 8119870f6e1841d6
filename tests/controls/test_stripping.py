"""What an upstream sees of a body that carries controls: everything else, in its own bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.controls import NAMES, STREAM_OPTIONS, Carried
from gateway.policy.stripping import carries, stripped, unwrapped

READ = msgspec.json.Decoder(Carried)


@pytest.mark.parametrize("name", NAMES)
def test_each_control_is_taken_out(name: str) -> None:
    body = b'{"model":"m","%s":null,"temperature":1.0}' % name.encode()
    assert carries(READ.decode(body))
    assert stripped(body) == b'{"model":"m","temperature":1.0}'


@pytest.mark.parametrize("name", STREAM_OPTIONS)
def test_each_stream_option_is_taken_out_and_the_rest_stays(name: str) -> None:
    body = b'{"stream_options":{"include_usage":true,"%s":0}}' % name.encode()
    assert carries(READ.decode(body))
    assert stripped(body) == b'{"stream_options":{"include_usage":true}}'
    assert stripped(b'{"a":1,"stream_options":{"%s":0}}' % name.encode()) == b'{"a":1}'


def test_stream_options_that_were_empty_or_none_stay_so() -> None:
    assert stripped(b'{"chunk_aggr":1,"stream_options":{}}') == b'{"stream_options":{}}'
    assert stripped(b'{"chunk_aggr":1,"stream_options":null}') == b'{"stream_options":null}'


@pytest.mark.parametrize("body", [b"{}", b'{"stream_options":{"include_usage":true}}', b'{"stream_options":[],"messages":[]}'])
def test_a_body_without_controls_carries_none(body: bytes) -> None:
    assert not carries(READ.decode(body))


def test_numbers_escapes_and_order_keep_their_bytes() -> None:
    body = b'{"seed":1e3,"chunk_aggr":1,"top_p":0.10,"messages":[{"content":"\\u00e9 \\/ "}],"big":123456789012345678901}'
    assert stripped(body) == body.replace(b'"chunk_aggr":1,', b"")


def test_a_format_that_is_another_servers_is_passed_on() -> None:
    assert stripped(b'{"reasoning_format":"parsed","chunk_aggr":1}') == b'{"reasoning_format":"parsed"}'
    assert stripped(b'{"reasoning_format":"hidden"}') == b"{}"


def test_extra_body_is_unwrapped_as_the_sdk_would_have_done() -> None:
    assert unwrapped(b'{"model":"m","extra_body":{"top_k":5,"model":"n"}}') == b'{"model":"n","top_k":5}'
    assert unwrapped(b'{"extra_body":{"extra_body":{"a":1.50}}}') == b'{"a":1.50}'
    assert unwrapped(b'{"a":1,"extra_body":null}') == b'{"a":1}'
    assert unwrapped(b'{"extra_body":[1]}') is None


def test_a_limit_is_told_under_the_upstreams_own_name() -> None:
    assert stripped(b'{"max_reasoning_tokens":5}', 5, "thinking_budget") == b'{"thinking_budget":5}'
    nested = b'{"max_reasoning_tokens":5,"reasoning":{"effort":"low"}}'
    assert stripped(nested, 5, "reasoning.max_tokens") == b'{"reasoning":{"effort":"low","max_tokens":5}}'
    assert stripped(b'{"max_reasoning_tokens":5}', 5, None) == b"{}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=6), st.lists(st.sampled_from(NAMES), max_size=4))
def test_all_other_members_stay(others: dict[str, Any], controls: list[str]) -> None:
    body = {**others, **dict.fromkeys(controls, 1)}
    kept = {key: value for key, value in others.items() if key not in NAMES}
    assert json.loads(stripped(json.dumps(body).encode())) == kept
