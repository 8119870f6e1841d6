"""The corpora: streams in the form in which servers send them, one file each, in a folder with the name of their dialect.

A dialect's folder is found by itself; what is right for its files is said by the tests of its family.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from gateway.dialects import DIALECTS, Dialect
from gateway.dialects.choices import ChoicesDialect
from gateway.stream import Phase
from support import sse
from support.chunks import DONE
from support.cuts import chopped, cut
from support.virtual import Relay, Sent, body, stream

CORPUS: Final = Path(__file__).parents[1] / "corpus"
BY_NAME: Final[dict[str, type[Dialect]]] = {each.name: each for each in DIALECTS.values()}
CHOICES: Final = {"openai-n2.sse": 2, "batch-n2.sse": 2}

BOTH = pytest.mark.parametrize("raw", [True, False], ids=["raw", "paced"])


def files(family: type[Dialect]) -> list[tuple[str, str]]:
    """(folder, name) of the files of all dialects of a family."""
    found = [name for name, each in BY_NAME.items() if issubclass(each, family)]
    return sorted((folder, path.name) for folder in found for path in (CORPUS / folder).glob("*.sse"))


def each(found: Sequence[tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("folder", "name"), found, ids=[f"{folder}/{name}" for folder, name in found])


def of(folder: str, name: str) -> bytes:
    return (CORPUS / folder / name).read_bytes()


def fresh(folder: str, name: str) -> Dialect:
    made = BY_NAME[folder]
    return made(CHOICES.get(name, 1)) if issubclass(made, ChoicesDialect) else made()


def datas(stream_bytes: bytes) -> list[str]:
    return [event.data for event in sse.read(stream_bytes)[0]]


def played(folder: str, name: str, pieces: list[bytes], *, raw: bool, gap_s: float) -> bytes:
    """The whole answer as it leaves, well-formed, each frame an event's end."""
    relay = Relay(stream(fresh(folder, name), raw=raw))
    sent = relay.play([(gap_s * index, piece) for index, piece in enumerate(pieces)], end=True)
    assert relay.stream.phase is Phase.ENDED
    assert relay.stream.failure is None
    out = body(sent)
    assert b"\r" not in out
    events, comments, rest = sse.read(out)
    assert not comments
    assert not rest
    assert all(event.end in ends(sent) for event in events if event.data == DONE)
    return out


def ends(sent: list[Sent]) -> set[int]:
    found, total = set(), 0
    for _, frame in sent:
        assert frame.endswith(b"\n\n"), "a frame ends inside an event"
        total += len(frame)
        found.add(total)
    return found


def at_random(name: str, seed: int, data: bytes) -> tuple[list[bytes], float]:
    """The data in pieces, and the seconds between them."""
    rng = random.Random(f"{seed} {name}")
    pieces = cut(data, [rng.randrange(len(data)) for _ in range(rng.choice([1, 8, 60]))])
    return pieces, rng.choice([0.001, 0.02, 0.05])


# Damage on the way

_INSERTED = [
    b"null",
    b"{}",
    b"[]",
    b'""',
    b'"',
    b"{",
    b"]",
    b",",
    b"\\",
    b"\n",
    b"\r\n\r\n",
    b"data: ",
    b"NaN",
    b"\\ud83d",
    b"-1",
    b"\xff",
    b"[DONE]",
]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, lost, doubled or put in; events swapped."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data))
        length = rng.choice([1, 3, 20, 200])
        match rng.randrange(5):
            case 0:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at] + rng.choice(_INSERTED) + data[at:]
            case 2:
                data = data[:at] + data[at + length :]
            case 3:
                data = data[:at] + data[max(0, at - length) :]
            case _:
                events = data.split(b"\n\n")
                rng.shuffle(events)
                data = b"\n\n".join(events)
    return data


def survived(folder: str, name: str, raw: bool) -> list[tuple[Relay, list[bytes]]]:
    """The stream damaged in a dozen ways, each played to its end: the machine, and the lines that left, all of them well-formed."""
    rng = random.Random(f"{name} {raw}")
    found = []
    for _ in range(12):
        data = damaged(of(folder, name), rng)
        relay = Relay(stream(fresh(folder, name), raw=raw))
        sent = relay.play([(0.02 * at, piece) for at, piece in enumerate(chopped(data, 700))], end=True)
        assert relay.over
        lines = [line for line in body(sent).split(b"\n") if line]
        assert all(line.startswith((b"data: ", b"event: ")) for line in lines)
        body(sent).decode()  # and are UTF-8
        ends(sent)
        found.append((relay, lines))
    return found
