"""What every dialect tells the stream: which pieces an event is, whether the answer is whole, and what our own events look like.

A dialect is one object a stream. It holds what the protocol needs to know of the past (ids, open calls, finish reasons) and nothing
of time or of bytes beyond events. To add one: subclass, list it in gateway/dialects/__init__.py, give it a corpus under tests/corpus.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple

import msgspec

from gateway.dialects.reported import reported_in, told
from gateway.errors import Failure
from gateway.piece import Kind, Piece
from gateway.wire import jsontext
from gateway.wire.sse import Event, render

# late: a comment until an event has left, native from then on
Style = Literal["comment", "chunk", "native", "late"]

DONE: Final = b"data: [DONE]\n\n"
# What a member of an odd type raises where another was expected: that one event is bad, not the gateway.
FAULTS: Final = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, msgspec.MsgspecError)

_FRAMED_AGAIN: Final = re.compile(rb"\A\s*(?:data:\s*)+")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the upstream counted them.

    input_tokens: the whole prompt; cache_read_tokens and cache_write_tokens are in it, cache_write_1h_tokens in the latter.
    reasoning_tokens: in output_tokens. unlisted_tokens: in the upstream's total and in neither of the two: reasoning that some count apart.
    """

    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    unlisted_tokens: int = 0


class Skimmed(NamedTuple):
    """What events are that came together; where they end; how many they are; the last's text."""

    pieces: list[Piece]
    stop: int
    events: int
    tail: str


class Dialect:
    """One stream's protocol state.

    committed: real content was seen: what came before it may leave, and no other attempt can replace this one.
    proven: the dialect's own sign of a whole answer was seen (a finish reason for each choice, a terminal event).
    settled: and nothing but the closing line is thought to follow: a stream that then falls silent is closed.
    doubtful: that is less sure than usual, so more patience is wanted.
    ended: nothing that follows belongs to the stream.
    idle: events that said nothing (pings, empty deltas, noise): signs of a connection, not of an answer.
    failure: the upstream reported an error in the stream.
    noise: events that were dropped because they are not this protocol's.
    """

    name: ClassVar[str]
    operation: ClassVar[str] = "chat"  # gen_ai_operation_name
    closes: ClassVar[bool] = True  # it has a sign of its own for a whole answer; where it has none, the end of the body must do

    def __init__(self) -> None:
        self.committed = False
        self.proven = False
        self.settled = False
        self.doubtful = False
        self.idle = 0
        self.ended = False
        self.failure: Failure | None = None
        self.noise = 0
        self.model: str | None = None
        self.usage: Usage | None = None
        self.begun_usage: Usage | None = None  # of the prompt, where the upstream tells it first
        self.withheld = 0.0  # tokens of reasoning that came and are not delivered, since the stream last asked
        self.text_tail = ""  # the last delta's text, to see whether the next continues its last grapheme

    @abstractmethod
    def read(self, event: Event) -> list[Piece]:
        """The pieces of an event, in the order in which they leave."""

    def skim(self, whole: bytes, at: int) -> Skimmed | None:
        """As many events from `at` on as can be told without parsing (alike.py); None where the next must be read. `whole` ends with an
        event's end. Protocols whose events differ in more than their text read them all."""
        return None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was odd about the stream and is no failure, in a word each: for its log line."""
        return ()

    @abstractmethod
    def close(self) -> list[Piece]:
        """What is still owed at the end of a proven stream: withheld events and the closing line."""

    @abstractmethod
    def fail(self, failure: Failure) -> Piece:
        """The event that tells a client of a failure in mid-stream."""

    @classmethod
    def error_body(cls, failure: Failure) -> bytes:
        """The body of an error response, in the shape that the dialect's clients read."""
        return error_body(failure)

    @classmethod
    def as_stream(cls, media_type: bytes, body: bytes) -> bytes | Failure:
        """A whole answer, where a stream was wanted, as the events that a stream would have brought."""
        failure = reported_in(body)
        if failure is not None:
            return failure
        kind = media_type.decode("latin-1") or "an answer without a content type"
        return Failure(
            "upstream_not_a_stream",
            f"The upstream answered {kind} where a stream was asked for. Check its base_url and that it can stream.",
        )

    @classmethod
    def gathered(cls, events: Iterable[Event]) -> bytes | Failure:
        """The events of a stream, where one answer was wanted, as the answer that they add up to."""
        return Failure("upstream_incomplete", "The upstream sent a stream that was cut short where one answer was asked for. Ask again.")

    @abstractmethod
    def heartbeat(self, style: Style) -> bytes | None:
        """A sign of life of that style; None where a comment must do."""

    def follow(self, before: Dialect) -> None:
        """This one takes the place of another whose attempt failed before any content: what the client has seen of that one goes on."""

    def read_last(self, event: Event) -> list[Piece]:
        """As `read`, for an event that the end of the body left without its blank line: used if its data is whole."""
        if event.data.strip() == b"[DONE]" or jsontext.is_object(event.data) or reported_in(event.data) is not None:
            return self.read(event)
        return []

    def dropped(self, event: Event) -> list[Piece]:
        """An event whose data is not JSON. Small slips of hand-made servers are mended. What was meant as JSON has lost text: that is told.
        Other words (a middle hop's keep-alive or error page) carry none: they are dropped, and if the stream was cut by them the missing
        end tells so."""
        mended = _mended(event.data)
        if mended != event.data:
            return self.read(Event(event.name, mended, render(mended, event.name)))
        reported = reported_in(event.data) or (told(event.data) if event.name == b"error" else None)
        if reported is not None:
            self.failure = reported
        elif _meant_as_json(event.data):
            self.failure = Failure(
                "upstream_bad_event",
                "The upstream sent an event that is not valid JSON, so part of the answer is missing. Ask again.",
            )
        else:
            self.noise += 1
            self.idle += 1
        return []


def _mended(data: bytes) -> bytes:
    """`data: data: {...}`, as proxies write that frame what is framed; control characters in strings, which JSON wants escaped."""
    data = _FRAMED_AGAIN.sub(b"", data, count=1)
    return jsontext.escaped(data) if jsontext.CONTROL.search(data) else data


def _meant_as_json(data: bytes) -> bool:
    """An object's beginning, or that of a list of objects or strings; a word in brackets, as `[END]`, is none."""
    data = data.lstrip()
    return data[:1] == b"{" or (data[:1] == b"[" and data[1:].lstrip()[:1] in (b"{", b'"'))


def error_body(failure: Failure) -> bytes:
    """A failure in OpenAI's shape, or the upstream's own words where it gave some."""
    if failure.body is not None:
        return failure.body
    error = {"message": failure.message, "type": failure.type, "param": failure.param, "code": failure.code}
    return jsontext.dump({"error": error})


def structure(data: bytes) -> Piece:
    return Piece(Kind.STRUCTURE, 0.0, data)
