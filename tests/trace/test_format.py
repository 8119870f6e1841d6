"""Trace files: what is read, what is refused by name, and that writing and reading are inverse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.traces import Burst, Trace, TraceError, line_of, load, loads
from gateway.traces.format import shown

KINDS = st.sampled_from(["content", "reasoning", "tool"])
MS = st.integers(0, 10_000_000).map(lambda tenths: tenths / 10)
BURSTS = st.lists(st.builds(Burst, MS, st.integers(1, 5000), KINDS, MS, st.integers(0, 100)), min_size=1, max_size=20).map(
    lambda found: tuple(sorted(found, key=lambda burst: burst.at_ms))
)
NAMES = st.text("abc-é", min_size=1, max_size=20)


@given(st.builds(Trace, NAMES, BURSTS, about=NAMES, done_ms=MS, dialect=NAMES, end=NAMES, delivered=BURSTS))
def test_what_is_written_is_read_again(trace: Trace) -> None:
    assert loads(line_of(trace), "x") == [trace]
    assert loads(line_of(trace) + "\n\n" + line_of(trace) + "\n", "x") == [trace, trace]


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "traces").glob("*.json")), ids=lambda path: path.stem)
def test_the_projects_own_traces_are_read(path: Path) -> None:
    [trace] = load(path)
    assert trace.name == path.stem
    assert trace.tokens == sum(burst["tokens"] for burst in json.loads(path.read_text())["bursts"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "x: holds no trace"),
        ("{", "x:1: is not JSON"),
        ('{"bursts":[{"at_ms":1,"tokens":1}]}\n{\n', "x:2: is not JSON"),
        ('{"bursts":[{"at_ms":1,"tokens":1}]}\n{"bu\n{"bursts":[{"at_ms":1,"tokens":1}]}', "x:2: is not JSON"),
        ("[" * 100_000, "x:1: is not JSON"),
        ('{"bursts":[{"at_ms":1,"tokens":1000000},{"at_ms":1,"tokens":1}]}', "bursts: stand for more than"),
        ("3", "x:1: a trace is an object"),
        ("{}", "x:1: bursts: is a list"),
        ('{"bursts":[]}', "x:1: bursts: is empty"),
        ('{"bursts":[{"tokens":1}]}', r"x:1: bursts\[0\].at_ms: is a number"),
        ('{"bursts":[{"at_ms":-1,"tokens":1}]}', r"bursts\[0\].at_ms"),
        ('{"bursts":[{"at_ms":1e999,"tokens":1}]}', r"bursts\[0\].at_ms"),
        ('{"bursts":[{"at_ms":NaN,"tokens":1}]}', r"bursts\[0\].at_ms"),
        ('{"bursts":[{"at_ms":1,"tokens":1.5}]}', r"bursts\[0\].tokens: is a whole number"),
        ('{"bursts":[{"at_ms":1,"tokens":true}]}', r"bursts\[0\].tokens"),
        ('{"bursts":[{"at_ms":1,"tokens":99999999}]}', r"bursts\[0\].tokens"),
        ('{"bursts":[{"at_ms":1,"tokens":1,"kind":"text"}]}', r"bursts\[0\].kind: is one of"),
        ('{"bursts":[{"at_ms":1,"tokens":1}],"name":7}', "name: is a short text"),
    ],
)
def test_what_is_no_trace_is_named_by_line_and_field(text: str, says: str) -> None:
    with pytest.raises(TraceError, match=says):
        loads(text, "x")


def test_a_last_line_that_was_not_written_to_its_end_is_left_out() -> None:
    whole = Trace("t", (Burst(1.0, 2),))
    line = line_of(whole)
    for end in range(1, len(line)):
        assert loads(line + "\n" + line[:end], "x") == [whole]


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a\u202eb", "👩\u200d💻", "\udcff", "x" * 5000])
def test_a_model_may_be_called_anything_and_its_trace_is_read_all_the_same(name: str) -> None:
    trace = Trace(shown(name), (Burst(1.0, 2),), model=shown(name))
    assert loads(line_of(trace), "x") == [trace]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_trace_that_an_editor_saved_in_its_own_way_is_read(tmp_path: Path, encoding: str) -> None:
    trace = Trace("größer", (Burst(1.0, 2),))
    (tmp_path / "t").write_bytes(json.dumps(json.loads(line_of(trace)), ensure_ascii=False).encode(encoding))
    assert load(tmp_path / "t") == [trace]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.json: No such file"):
        load(tmp_path / "none.json")
