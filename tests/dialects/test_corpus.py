"""Streams of the shapes that providers send, byte for byte, through the whole machine: nothing is lost, doubled, changed or out of order.

A new shape is a file in tests/corpus/<dialect>.
"""

from __future__ import annotations

import json

from dialects.corpora import BOTH, CHOICES, datas, each, files, fresh, of, played, survived
from gateway.dialects.choices import ChoicesDialect
from support import sse
from support.chunks import DONE, collect
from support.virtual import Relay, body, stream

FILES = files(ChoicesDialect)

# What cannot pass byte for byte, and why.
MENDED = {
    "azure-async-filter.sse": "what follows a finish reason is looked at, though nothing is changed",
    "fim-one-chunk.sse": "a finish reason that comes before any text waits for the end",
    "one-chunk-answer.sse": "a finish reason that comes before any text waits for the end",
    "surrogate-halves.sse": "half a surrogate pair waits for the other half",
    "gemini-parallel-one-index.sse": "two calls of one index would become one in every client",
    "sglang-nulls.sse": "a role that is null breaks strict clients",
}
EACH = each(FILES)


@EACH
def test_raw_mode_changes_no_byte_that_needs_no_mending(folder: str, name: str) -> None:
    data = of(folder, name)
    out = played(folder, name, [data], raw=True, gap_s=0.0)
    comments = b": OPENROUTER PROCESSING\n\n"
    assert (out == data.replace(b"\r\n", b"\n").replace(comments, b"")) == (name not in MENDED or "though nothing" in MENDED[name])


@EACH
def test_usage_is_what_the_upstream_said_last(folder: str, name: str) -> None:
    dialect = fresh(folder, name)
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
        dialect = fresh(folder, name)
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


@EACH
@BOTH
def test_damage_never_stops_the_machine_and_never_gets_past_the_framing(folder: str, name: str, raw: bool) -> None:
    for relay, lines in survived(folder, name, raw):
        whole = relay.stream.failure is None
        assert [line for line in lines if line == b"data: [DONE]"] == [b"data: [DONE]"] * whole
