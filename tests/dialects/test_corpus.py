"""Streams of the shapes that providers send, byte for byte, through the whole machine: nothing is lost, doubled, changed or out of order.

A new shape is a file in tests/corpus/<dialect>.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from gateway.dialects import Chat, Completions, Dialect
from gateway.stream import Phase
from support import extras, sse
from support.chunks import DONE, collect
from support.cuts import chopped, cut
from support.virtual import Relay, body, stream

CORPUS = Path(__file__).parents[1] / "corpus"
DIALECTS: dict[str, type[Dialect]] = {"chat": Chat, "completions": Completions}
FILES = sorted((folder, path.name) for folder in DIALECTS for path in (CORPUS / folder).glob("*.sse"))
CHOICES = {"openai-n2.sse": 2, "batch-n2.sse": 2}

# What cannot pass byte for byte, and why.
MENDED = {
    "azure-async-filter.sse": "what follows a finish reason is looked at, though nothing is changed",
    "fim-one-chunk.sse": "a finish reason that comes before any text waits for the end",
    "one-chunk-answer.sse": "a finish reason that comes before any text waits for the end",
    "surrogate-halves.sse": "half a surrogate pair waits for the other half",
}


def of(folder: str, name: str) -> bytes:
    return (CORPUS / folder / name).read_bytes()


def datas(stream_bytes: bytes) -> list[str]:
    return [event.data for event in sse.read(stream_bytes)[0]]


def played(folder: str, name: str, pieces: list[bytes], *, raw: bool, gap_s: float) -> bytes:
    dialect = DIALECTS[folder](CHOICES.get(name, 1))  # type: ignore[call-arg]
    relay = Relay(stream(dialect, raw=raw))
    sent = relay.play([(gap_s * index, piece) for index, piece in enumerate(pieces)], end=True)
    assert relay.stream.phase is Phase.ENDED
    assert relay.stream.failure is None
    out = body(sent)
    assert b"\r" not in out
    events, comments, rest = sse.read(out)
    assert not comments
    assert not rest
    assert all(event.end in _ends(sent) for event in events if event.data == DONE)
    return out


def _ends(sent: list[tuple[float, bytes]]) -> set[int]:
    ends, total = set(), 0
    for _, frame in sent:
        assert frame.endswith(b"\n\n"), "a frame ends inside an event"
        total += len(frame)
        ends.add(total)
    return ends


def same(folder: str, name: str, out: bytes) -> None:
    came, went = datas(of(folder, name)), datas(out)
    before, after = collect(came), collect(went)
    if folder == "chat":
        assert all("delta" in choice for data in went if data != DONE for choice in json.loads(data)["choices"])
    assert after.choices == before.choices
    assert after.order == before.order
    assert after.ids == before.ids
    assert after.usages == before.usages
    assert after.errors == before.errors == []
    assert (after.done, after.after_done) == (1, 0)
    assert went[-1] == DONE
    assert extras.once(went) == extras.once(came)
    assert extras.envelope(went) == extras.envelope(came)
    finishes = [choice.finish_frames for choice in after.choices.values()]
    assert finishes == [1] * len(finishes)


EACH = pytest.mark.parametrize(("folder", "name"), FILES, ids=[f"{folder}/{name}" for folder, name in FILES])
BOTH = pytest.mark.parametrize("raw", [True, False], ids=["raw", "paced"])


@EACH
@BOTH
def test_whole(folder: str, name: str, raw: bool) -> None:
    same(folder, name, played(folder, name, [of(folder, name)], raw=raw, gap_s=0.0))


@EACH
@BOTH
def test_byte_by_byte(folder: str, name: str, raw: bool) -> None:
    same(folder, name, played(folder, name, chopped(of(folder, name), 1), raw=raw, gap_s=0.0005))


@EACH
@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_cut_at_random(folder: str, name: str, raw: bool, seed: int) -> None:
    rng = random.Random(f"{seed} {name}")
    data = of(folder, name)
    pieces = cut(data, [rng.randrange(len(data)) for _ in range(rng.choice([1, 8, 60]))])
    same(folder, name, played(folder, name, pieces, raw=raw, gap_s=rng.choice([0.001, 0.02, 0.05])))


@EACH
def test_raw_mode_changes_no_byte_that_needs_no_mending(folder: str, name: str) -> None:
    data = of(folder, name)
    out = played(folder, name, [data], raw=True, gap_s=0.0)
    comments = b": OPENROUTER PROCESSING\n\n"
    assert (out == data.replace(b"\r\n", b"\n").replace(comments, b"")) == (name not in MENDED or "though nothing" in MENDED[name])


@EACH
def test_usage_is_what_the_upstream_said_last(folder: str, name: str) -> None:
    dialect = DIALECTS[folder](CHOICES.get(name, 1))  # type: ignore[call-arg]
    relay = Relay(stream(dialect, raw=True))
    relay.play([(0.0, of(folder, name))], end=True)
    usages = [json.loads(data).get("usage") for data in datas(of(folder, name)) if data != DONE]
    last = [usage for usage in usages if usage][-1:]
    if not last:
        assert dialect.usage is None
        return
    assert dialect.usage is not None
    assert (dialect.usage.input_tokens, dialect.usage.output_tokens) == (last[0]["prompt_tokens"], last[0]["completion_tokens"])


@EACH
def test_a_stream_cut_before_its_proof_is_not_whole(folder: str, name: str) -> None:
    """Cut behind each event: whole exactly if every choice has its finish reason, and then with its closing line."""
    data = of(folder, name)
    events = sse.read(data)[0]
    for event in events[:-1]:
        dialect = DIALECTS[folder](CHOICES.get(name, 1))  # type: ignore[call-arg]
        relay = Relay(stream(dialect, raw=True))
        relay.play([(0.0, data[: event.end])], end=True)
        so_far = collect(datas(data[: event.end]))
        proven = len(so_far.choices) == CHOICES.get(name, 1) and all(choice.finish for choice in so_far.choices.values())
        assert (relay.stream.failure is None) == proven
        out = collect(datas(body(relay.sent)))
        assert out.done == proven
        assert bool(out.errors) == (not proven and bool(relay.sent))
        if relay.sent:
            for index, choice in so_far.choices.items():
                for field, text in choice.texts.items():
                    waiting = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""  # half a character
                    assert out.choices[index].texts.get(field, "") == text.removesuffix(waiting)


def test_every_reason_why_bytes_change_names_a_file() -> None:
    assert set(MENDED) <= {name for _, name in FILES}


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


@EACH
@BOTH
def test_damage_never_stops_the_machine_and_never_gets_past_the_framing(folder: str, name: str, raw: bool) -> None:
    rng = random.Random(f"{name} {raw}")
    for _ in range(12):
        data = damaged(of(folder, name), rng)
        relay = Relay(stream(DIALECTS[folder](CHOICES.get(name, 1)), raw=raw))  # type: ignore[call-arg]
        sent = relay.play([(0.02 * at, piece) for at, piece in enumerate(chopped(data, 700))], end=True)
        assert relay.over
        out = [line for line in body(sent).split(b"\n") if line]
        assert all(line.startswith((b"data: ", b"event: ")) for line in out)
        whole = relay.stream.failure is None
        assert [line for line in out if line == b"data: [DONE]"] == [b"data: [DONE]"] * whole
        _ends(sent)
