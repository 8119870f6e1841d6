"""The pure parts: nothing but what each says it raises, nothing out that did not come in, nothing kept beyond its bound."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dialects.corpora import BY_NAME, CORPUS
from fuzz.mutations import cuts
from gateway.dialects import Dialect
from gateway.dialects.base import FAULTS
from gateway.dialects.choices import ChoicesDialect
from gateway.dialects.reforms import Wish
from gateway.dialects.seams import OfChoices, OfMessages, Seam
from gateway.dialects.trails import Trail
from gateway.errors import Failure
from gateway.policy.controls import Carried, controls_of
from gateway.policy.stripping import stripped, unwrapped
from gateway.server.asking import Refused, understand
from gateway.settings import Reasoning, Upstream
from gateway.stream import Phase
from gateway.stream.sewing import Sewing
from gateway.upstream.frames import BadFrame, Reader
from gateway.upstream.targets import Target, api_path
from gateway.wire import jsontext
from gateway.wire.coding import CodingError, Decompressor
from gateway.wire.sse import Decoder, Event
from support.virtual import Relay, body, stream

EVENT_BYTES: Final = 4096
WISHES: Final = (
    None, None, None, Wish("reasoning"), Wish("reasoning_content"), Wish("think_tags"), Wish("hidden"), Wish("tagged"), Wish("as_is", tagged=True),
    Wish("as_is", most_tokens=3.0), Wish("think_tags", begins_inside=True),
)  # fmt: skip
_ENDS: Final = (True, True, None, Failure("upstream_reset", "It broke."))
TARGET: Final = Target.of(Upstream("fuzzed", "https://upstream.example/api/v1"))


def streams(folder: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / folder).glob("*.sse"))]


@dataclass
class Streamed:
    """A dialect behind the decoder, in the stream's machine with and without pacing, on a virtual clock."""

    dialect: type[Dialect]

    def __call__(self, data: bytes, chance: random.Random) -> None:
        made = self.dialect
        fresh = made(1, "chatcmpl-x", chance.choice(WISHES)) if issubclass(made, ChoicesDialect) else made()
        machine = stream(
            fresh, raw=chance.random() < 0.5, event_bytes=EVENT_BYTES, clocks={"total": 500.0}, every=chance.choice((15.0, 0.5))
        )
        relay = Relay(machine)
        at, arrivals = 0.0, []
        for part in cuts(chance, data):
            arrivals.append((at, part))
            at += chance.choice((0.0, 0.001, 0.03, 1.0))
        relay.play(arrivals, end=chance.choice(_ENDS), until=2000.0)
        assert relay.over
        assert machine.phase is Phase.ENDED or relay.refused
        out = body(relay.sent)
        assert not out or out.endswith(b"\n")
        assert b"\r" not in out
        # An event of one kilobyte whose text comes in a hundred pieces goes out as a hundred: the envelope's size times the tokens.
        assert len(out) <= 4096 + (len(data) + 64) * EVENT_BYTES


@dataclass
class Gathered:
    """A whole stream made one answer, an answer made a stream, and what is read of a body whatever it is."""

    dialect: type[Dialect]

    def __call__(self, data: bytes, chance: random.Random) -> None:
        decoder = Decoder(EVENT_BYTES)
        whole = self.dialect.gathered([*decoder.feed(data), *decoder.close()])
        assert isinstance(whole, Failure) or json.loads(whole) is not None
        events = self.dialect.as_stream(chance.choice((b"application/json", b"text/html", b"")), data)
        assert isinstance(events, Failure) or len(events) <= 4096 + 8 * len(data)


@dataclass(frozen=True)
class Sewn:
    """A stream that goes on behind a seam: whatever comes on either side of it, nothing raises."""

    seam: Callable[[Trail], Seam]

    def __call__(self, data: bytes, chance: random.Random) -> None:
        sewing = Sewing(Trail(("think",)))
        decoder = Decoder(EVENT_BYTES)
        events = [*decoder.feed(data), *decoder.close()]
        at = chance.randrange(len(events) + 1)
        assert sewing.take(events[:at]) == events[:at]
        assert sewing.trail is not None
        assert sewing.trail.may_continue in (True, False)
        sewing.begin(self.seam(sewing.trail), b"")
        assert all(event.raw.endswith(b"\n\n") for event in sewing.take(events[chance.randrange(at + 1) :]))


def sse(data: bytes, chance: random.Random) -> None:
    """However it is cut, the same events."""
    lenient = chance.random() < 0.7
    one, two = Decoder(EVENT_BYTES, lenient=lenient), Decoder(EVENT_BYTES, lenient=lenient)
    at_once = one.feed(data)
    in_parts = []
    for part in cuts(chance, data):
        in_parts += two.feed(part)
        assert len(two._buffer) <= EVENT_BYTES + len(data)
    if not (one.overflowed or two.overflowed):
        assert _said(in_parts) == _said(at_once)
        assert _said(one.close()) == _said(two.close())
    for event in at_once:
        assert b"\r" not in event.raw
        assert event.raw.endswith(b"\n\n")


def _said(events: list[Event]) -> list[tuple[bytes | None, bytes, bytes]]:
    return [(event.name, event.data, event.raw) for event in events]


def jsons(data: bytes, chance: random.Random) -> None:
    for take in (jsontext.members, jsontext.elements, jsontext.value):
        with contextlib.suppress(ValueError):
            take(data)
    for total in (jsontext.is_object, jsontext.strict, jsontext.escaped, jsontext.one_line):
        assert total(data) is not None
    with contextlib.suppress(ValueError):
        found = jsontext.members(data)
        assert jsontext.members(jsontext.join(found)) == found


def requests(data: bytes, chance: random.Random) -> None:
    """A body as a client sends it, and the controls in it."""
    with contextlib.suppress(Refused, ValueError):
        coding = chance.choice((b"", b"", b"", b"gzip", b"gzip, br", b"x" * 9))
        ask = understand(data, [(b"content-encoding", coding)], 2**16)
        if ask.carried is not None:
            fields = [(b"last-event-id", data[:20]), (b"x-budget-usd", data[20:30]), (b"x-cluster", data[30:34])]
            controls_of(ask.carried, fields, dialect="chat", reasoning=Reasoning(), model=ask.model, upstream_limits=True)
            unwrapped(data)
            stripped(data, 5, "reasoning.max_tokens")
        else:
            controls_of(Carried(), [], dialect="chat", reasoning=Reasoning(), model=None, upstream_limits=False)


def paths(data: bytes, chance: random.Random) -> None:
    raw = bytes(b for b in data[:200] if 0x21 <= b <= 0x7E).partition(b"#")[0].partition(b"?")[0]
    path = api_path(raw if raw.startswith(b"/") else b"/" + raw)
    if path is None:
        return
    url = TARGET.url(path)
    assert url.host == "upstream.example"
    assert url.raw_path.startswith(b"/api/v1")


def codings(data: bytes, chance: random.Random) -> None:
    decompressor = Decompressor(chance.choice((b"gzip", b"deflate", b"br", b"zstd")), 2**16)
    with contextlib.suppress(CodingError):
        for part in cuts(chance, data):
            assert len(decompressor.feed(part)) <= 2**16


class _Inlet:
    def __init__(self) -> None:
        self.parts: list[bytes] = []


def frames(data: bytes, chance: random.Random) -> None:
    """However the bytes are cut: the same frames and the same payloads."""
    seen = []
    for parts in ([data], cuts(chance, data)):
        reader: Reader[Any] = Reader()
        inlet = reader.inlets[1] = _Inlet()
        found: list[Any] = []
        try:
            for part in parts:
                found += reader.feed(part)
                assert len(reader._rest) < 9 + 16 * 1024
        except BadFrame as bad:
            found.append(bad.code)
        seen.append((found, b"".join(inlet.parts)))
    assert seen[0] == seen[1]


def bodies() -> list[bytes]:
    """Requests with all that the gateway acts on."""
    controls = {
        "chunk_aggr": 3, "reasoning_chunk_buffer": 4, "max_reasoning_tokens": 5, "stream_reasoning": True, "reasoning_cluster": True,
        "max_reasoning_clusters": 2, "cluster_strategy": "paged", "page_token_budget": 240, "backoff_ms": 80, "reasoning_format": "tagged",
    }  # fmt: skip
    base: dict[str, Any] = {"model": "m", "stream": True, "n": 2, "messages": [{"role": "user", "content": "h\u00e9 \ud83d"}]}
    options = {"include_usage": True, "cluster_hint": False, "cursor_resume": 7, "chunk_overlap": 0}
    made = [base, {**base, **controls}, {**base, "stream_options": options}, {**base, "extra_body": {**controls, "a": [1, {"b": None}]}}]
    made.append({"model": "m", "prompt": ["a", [1, 2], "b"], "stream": True})
    return [json.dumps(each).encode() for each in made] + [b'{"model":"m","n":NaN,"stream":true,"prompt":["\\ud83d"]}']


def compressed() -> list[bytes]:
    import gzip
    import zlib

    import brotli
    import zstandard

    text = Path(__file__).read_bytes()
    return [
        gzip.compress(text),
        gzip.compress(b"a") * 5,
        zlib.compress(text),
        zlib.compress(text)[2:-4],
        brotli.compress(text),
        zstandard.compress(text),
    ]


ALL: Final[dict[str, tuple[Callable[[bytes, random.Random], None], Callable[[], list[bytes]]]]] = {
    "sse": (sse, lambda: [data for folder in BY_NAME for data in streams(folder)]),
    "json": (
        jsons,
        lambda: [
            *bodies(),
            *(line[6:] for folder in BY_NAME for data in streams(folder) for line in data.splitlines() if line[:6] == b"data: "),
        ],
    ),
    "requests": (requests, bodies),
    "paths": (
        paths,
        lambda: [
            b"/v1/chat/completions",
            b"/v1/%2e%2e/admin",
            b"/v1/files/a%2fb/content",
            b"//v1/v1/..;/x",
            b"/v1/%252e%252e%5c..",
            b"/v1/a@b:c/d",
        ],
    ),
    "codings": (codings, compressed),
    **{f"stream {name}": (Streamed(made), lambda name=name: streams(name)) for name, made in BY_NAME.items()},  # type: ignore[misc]
    "seam chat": (Sewn(OfChoices), lambda: streams("chat")),
    "seam messages": (Sewn(OfMessages), lambda: streams("messages")),
    **{f"answer {name}": (Gathered(made), lambda name=name: streams(name)) for name, made in BY_NAME.items()},  # type: ignore[misc]
}
FAULTS_OF_DIALECTS: Final = FAULTS  # which `read` may raise; the machine makes a failure of each
