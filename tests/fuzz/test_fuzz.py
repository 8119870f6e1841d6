"""Some thousand mutations of each corpus in each run of the tests; `tests/fuzz/run.py` makes millions, and docs/security.md says how many."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import run
from fuzz.mutations import WORDS

NAMES: Final = sorted(run.targets())
run.close()
EXECUTIONS: Final = 3000
SEED: Final = 7


@pytest.fixture(autouse=True)
def _loops() -> Iterator[None]:
    """The targets' loops are never run; each is closed all the same."""
    yield
    run.close()


@pytest.mark.parametrize("name", NAMES)
def test_no_mutation_is_a_fault(name: str) -> None:
    target, corpus = run.targets()[name]
    found = run.fuzz(target, corpus, EXECUTIONS, SEED)
    assert found is None, f"execution {found[0]} of seed {SEED}: {found[1]!r}" if found else ""


@pytest.mark.parametrize("name", NAMES)
def test_no_composition_is_a_fault(name: str) -> None:
    """Led by hypothesis, which makes a failing input small: words that parsers trip over, in any order, with parts of the corpus."""
    target, corpus = run.targets()[name]
    parts = [data[at : at + 300] for data in corpus for at in range(0, len(data), 300)][:200]

    @settings(max_examples=60)
    @given(st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(parts), st.binary(max_size=20)), max_size=12), st.integers(0, 2**32))
    def composed(pieces: list[bytes], seed: int) -> None:
        target(b"".join(pieces), random.Random(seed))

    composed()


@pytest.mark.parametrize("name", NAMES)
def test_every_corpus_passes_as_it_is(name: str) -> None:
    target, corpus = run.targets()[name]
    for number, data in enumerate(corpus):
        target(data[:8192], random.Random(number))


def test_a_fault_is_found_and_can_be_made_again() -> None:
    """A fuzzer that finds nothing might be one that looks at nothing."""

    def faulty(data: bytes, chance: random.Random) -> None:
        if b"\x00" in data:
            raise RuntimeError("a NUL")

    found = run.fuzz(faulty, [b"data: {}\n\n" * 5], 2000, SEED)
    assert found is not None
    number, data, _ = found
    assert run.made([b"data: {}\n\n" * 5], SEED, number)[0] == data
    assert b"\x00" in data


def test_the_targets_that_matter_are_there() -> None:
    made: Callable[[str], bool] = NAMES.__contains__
    assert all(
        map(
            made,
            ("http/1.1 answers", "http/1.1 requests", "http/2 answers", "http/2 frames", "sse", "json", "requests", "paths", "codings"),
        )
    )
    assert {name for name in NAMES if name.startswith("stream ")} == {
        "stream chat",
        "stream completions",
        "stream messages",
        "stream responses",
    }
