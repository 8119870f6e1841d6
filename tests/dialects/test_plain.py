"""Event streams of unknown protocols."""

from __future__ import annotations

import json

import pytest

from dialects.reading import event
from gateway.dialects import Chat, Completions, Plain, dialect_of
from gateway.errors import Failure


def test_events_of_an_unknown_protocol_pass_untouched() -> None:
    dialect = Plain()
    for data, name in ((b"anything", None), (b'{"a":', b"odd"), (b"[DONE]", None)):
        [piece] = dialect.read(event(data, name))
        assert piece.data == event(data, name).raw
        assert piece.weight == 0.0
    assert dialect.close() == []


def test_their_end_is_all_the_proof_there_is() -> None:
    dialect = Plain()
    assert dialect.proven
    assert not dialect.closes


def test_a_failure_is_told_as_an_error_event() -> None:
    told = Plain().fail(Failure("upstream_reset", "It broke.")).data
    assert told.startswith(b"event: error\ndata: ")
    assert json.loads(told.partition(b"data: ")[2])["error"]["code"] == "upstream_reset"


@pytest.mark.parametrize(("path", "dialect"), [(b"/chat/completions", Chat), (b"/completions", Completions), (b"/audio/speech", None)])
def test_a_path_speaks_its_dialect(path: bytes, dialect: type[Chat] | None) -> None:
    assert dialect_of("POST", path) is dialect


def test_only_posts_are_answered_in_a_dialect_of_chunks() -> None:
    assert dialect_of("GET", b"/chat/completions") is None
