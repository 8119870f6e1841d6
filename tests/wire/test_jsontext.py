"""JSON taken apart and put together again: nobody's bytes change on the way."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire import jsontext

# JSON as text, with the freedom that its grammar gives: blanks, spellings of numbers, escapes.
_BLANK = st.sampled_from(["", "", " ", "\t", "\n ", " \r\n"])
_NUMBER = st.one_of(
    st.integers().map(str),
    st.sampled_from(
        ["0.10", "1.0", "1e5", "1E+2", "-0", "-0.0", "1.50e-007", "123456789012345678901234567890", "0.1000000000000000055511151231257827"]
    ),
)
_ESCAPED = st.sampled_from(['"\\u00e9"', '"\\/"', '"\\ud83d\\ude00"', '"a\\"b\\\\"', '"{[,:]}"', '"\\n"', '"NaN"', '"-Infinity"'])
_LONE = st.sampled_from(['"\\ud83d"', '"a\\ude00b"', '"\\ud83d\\ud83d"'])
_NAN = st.sampled_from(["NaN", "Infinity", "-Infinity"])
_STRING = st.text(st.characters(codec="utf-8"), max_size=6).map(lambda text: json.dumps(text, ensure_ascii=False))
_PLAIN = st.one_of(_NUMBER, _STRING, _ESCAPED, st.sampled_from(["true", "false", "null"]))


def _objects(values: st.SearchStrategy[str], keys: st.SearchStrategy[str] = _STRING) -> st.SearchStrategy[str]:
    member = st.tuples(_BLANK, keys, _BLANK, _BLANK, values, _BLANK).map(lambda m: f"{m[0]}{m[1]}{m[2]}:{m[3]}{m[4]}{m[5]}")
    members = st.lists(member, max_size=4, unique_by=lambda text: json.loads("{" + text + "}").popitem()[0])
    return st.tuples(_BLANK, members, _BLANK).map(lambda parts: f"{{{parts[0] + ','.join(parts[1]) or parts[2]}}}")


def _arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    element = st.tuples(_BLANK, values, _BLANK).map("".join)
    return st.lists(element, max_size=4).map(lambda elements: f"[{','.join(elements)}]")


def _json(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(leaves, lambda inner: _objects(inner) | _arrays(inner), max_leaves=8)


SANE = _json(_PLAIN)
ODD = _json(st.one_of(_PLAIN, _LONE, _NAN))


def equal(a: Any, b: Any) -> bool:
    """As values; NaN equals NaN."""
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


@given(_objects(ODD, st.one_of(_STRING, _ESCAPED)), _BLANK)
def test_members_are_the_values_in_their_own_bytes(text: str, around: str) -> None:
    data = (around + text + around).encode("utf-8", "surrogatepass")
    found = jsontext.members(data)
    whole = json.loads(text)
    assert list(found) == list(whole)
    for key, raw in found.items():
        assert raw in data
        assert raw == raw.strip()
        assert equal(json.loads(raw), whole[key])


@given(_objects(ODD))
def test_members_joined_again_are_the_same_object(text: str) -> None:
    found = jsontext.members(text.encode())
    joined = jsontext.join(found)
    assert equal(json.loads(joined), json.loads(text))
    assert jsontext.members(joined) == found


@given(_arrays(ODD))
def test_elements_are_the_values_in_their_own_bytes(text: str) -> None:
    found = jsontext.elements(text.encode())
    assert equal([json.loads(raw) for raw in found], json.loads(text))
    assert jsontext.elements(jsontext.array(found)) == found


def test_numbers_keep_every_digit() -> None:
    data = b'{"a": 1.0, "b":-0,"c":1E+2 ,"d":0.1000000000000000055511151231257827,"e":12345678901234567890123}'
    assert jsontext.members(data) == {
        "a": b"1.0",
        "b": b"-0",
        "c": b"1E+2",
        "d": b"0.1000000000000000055511151231257827",
        "e": b"12345678901234567890123",
    }


def test_order_of_keys_is_kept_whichever_way_they_are_read() -> None:
    assert list(jsontext.members(b'{"z":1,"a":2,"m":3}')) == ["z", "a", "m"]
    assert list(jsontext.members(b'{"z":NaN,"a":"\\ud83d","m":3}')) == ["z", "a", "m"]


@pytest.mark.parametrize(
    "data", [b"", b"1", b'"a"', b"null", b"[1]", b"{", b'{"a":1', b'{"a":1}}', b'{"a":1}{"b":2}', b"{'a':1}", b'{"a" 1}', b"\xff"]
)
def test_what_is_no_object_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # its kind is all that callers look at
        jsontext.members(data)
    assert not jsontext.is_object(data)


@pytest.mark.parametrize("data", [b"", b"1", b'{"a":1}', b"[1", b"[1]]", b"[1,]", b"null"])
def test_what_is_no_array_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # its kind is all that callers look at
        jsontext.elements(data)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ aN1', max_size=30).map(str.encode))
def test_nothing_but_a_value_error_comes_out(data: bytes) -> None:
    for function in (jsontext.members, jsontext.elements, jsontext.value, jsontext.is_object, jsontext.strict, jsontext.one_line):
        try:
            function(data)
        except ValueError:
            continue


@pytest.mark.parametrize("opener", [b"[", b'{"a":'])
@pytest.mark.parametrize("odd", [b"", b"NaN,"])
def test_nesting_without_end_is_a_value_error(opener: bytes, odd: bytes) -> None:
    deep = opener * 100_000
    for function, data in (
        (jsontext.members, b'{"x":' + deep),
        (jsontext.elements, b"[" + odd + deep),
        (jsontext.value, deep),
    ):
        with pytest.raises(ValueError):  # noqa: PT011  # its kind is all that callers look at
            function(data)
    closed = b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    assert not jsontext.is_object(closed)


@given(SANE)
def test_strict_leaves_json_alone(text: str) -> None:
    data = text.encode()
    assert jsontext.strict(data) == data


@given(ODD)
def test_strict_makes_nulls_of_what_is_no_number(text: str) -> None:
    def refuse(word: str) -> Any:
        raise AssertionError(word)

    made = json.loads(jsontext.strict(text.encode()), parse_constant=refuse)
    assert equal(made, json.loads(text, parse_constant=lambda _: None))


def test_strict_leaves_strings_alone() -> None:
    data = b'{"NaN":"NaN","a":"-Infinity \\" NaN","b":[NaN,-Infinity,"x NaN"],"c":-NaN}'
    assert jsontext.strict(data) == b'{"NaN":"NaN","a":"-Infinity \\" NaN","b":[null,null,"x NaN"],"c":null}'


@given(st.text(st.characters(), max_size=12))
def test_quoted_text_is_the_text(text: str) -> None:
    """Halves of surrogate pairs too. Two halves that meet are one character, as in every JSON."""
    quoted = jsontext.quote(text)
    quoted.decode()  # it is UTF-8
    assert json.loads(quoted) == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert jsontext.value(quoted) == json.loads(quoted)


def test_only_halves_of_pairs_are_escaped() -> None:
    assert jsontext.quote("é😀\u2028\ud83d") == '"é😀\u2028\\ud83d"'.encode()


@given(ODD)
def test_value_is_what_the_json_module_says(text: str) -> None:
    assert equal(jsontext.value(text.encode()), json.loads(text))


def test_json_over_lines_is_put_on_one() -> None:
    assert jsontext.members(jsontext.one_line(b'{\n "a":\n1\n}')) == {"a": b"1"}
