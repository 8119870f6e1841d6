"""Streams of typed events in the form in which servers send them, through the whole machine: text, order and fields exact."""

from __future__ import annotations

import json

from dialects.corpora import BOTH, datas, each, files, fresh, of, played, survived
from dialects.sameness import ENDS
from gateway.dialects.typed import TypedDialect
from support import sse
from support.chunks import DONE
from support.typed import said
from support.virtual import Relay, body, stream

FILES = files(TypedDialect)
EACH = each(FILES)

# What cannot pass byte for byte, and why.
MENDED = {
    ("messages", "proxy-without-names.sse"): "Anthropic's SDKs ignore events without a name",
    ("messages", "surrogate-halves.sse"): "half a surrogate pair waits for the other half",
    ("responses", "surrogate-halves.sse"): "half a surrogate pair waits for the other half",
}
FAILURES = {"responses": ("response.failed", "error"), "messages": ("error",)}


@EACH
def test_raw_mode_changes_no_byte_that_needs_no_mending(folder: str, name: str) -> None:
    data = of(folder, name)
    out = played(folder, name, [data], raw=True, gap_s=0.0)
    plain = data.replace(b"\r\n", b"\n").replace(b": OPENROUTER PROCESSING\n\n", b"").removesuffix(b"data: [DONE]\n\n")
    assert (out == plain) == ((folder, name) not in MENDED)


@EACH
@BOTH
def test_signatures_and_numbers_keep_every_byte(folder: str, name: str, raw: bool) -> None:
    """A member that JSON would read as the same value is looked for as it was written."""
    data = of(folder, name)
    out = played(folder, name, [data], raw=raw, gap_s=0.0)
    for written in (b"+/==", b"1.50", b"0.90", b"1E-7", b"12345678901234567890123", b"1790000000.0000001", b"1.00,", b"0.00012", b"+/w"):
        assert out.count(written) >= data.count(written)


@EACH
def test_usage_is_what_the_upstream_said_last(folder: str, name: str) -> None:
    relay = Relay(stream(fresh(folder, name), raw=True))
    relay.play([(0.0, of(folder, name))], end=True)
    objects = [json.loads(data) for data in datas(of(folder, name)) if data != DONE]
    told = [
        each["response"]["usage"] if folder == "responses" else each.get("usage")
        for each in objects
        if each.get("usage") or "response" in each
    ]
    last = [usage for usage in told if usage][-1:]
    usage = relay.stream.dialect.usage
    assert (usage.output_tokens if usage else None) == (last[0]["output_tokens"] if last else None)


@EACH
def test_a_stream_cut_before_its_proof_is_not_whole(folder: str, name: str) -> None:
    """Cut behind each event: whole only with its proof; else what came is there, and an error in this protocol's form ends it."""
    data = of(folder, name)
    for event in sse.read(data)[0][:-1]:
        so_far = said(datas(data[: event.end]))
        relay = Relay(stream(fresh(folder, name), raw=True))
        relay.play([(0.0, data[: event.end])], end=True)
        after = said(datas(body(relay.sent)))
        proven = so_far.kinds[-1] in ENDS[folder] or (folder == "messages" and so_far.kinds[-1] == "message_delta")
        assert (relay.stream.failure is None) == proven
        if proven:
            assert after.kinds[-1] in ENDS[folder]
        elif relay.sent:
            assert after.kinds[-1] in FAILURES[folder]
            assert after.kinds.count(after.kinds[-1]) == 1


@EACH
@BOTH
def test_damage_never_stops_the_machine_and_never_gets_past_the_framing(folder: str, name: str, raw: bool) -> None:
    for _, lines in survived(folder, name, raw):
        assert b"data: [DONE]" not in lines


def test_every_reason_why_bytes_change_names_a_file() -> None:
    assert set(MENDED) <= set(FILES)


def test_every_dialect_has_a_corpus() -> None:
    assert {folder for folder, _ in FILES} == set(ENDS) == set(FAILURES)
