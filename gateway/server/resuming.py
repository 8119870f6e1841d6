"""Requests for streams that can be resumed: by which name one is asked for, from which place on, and who answers.

Owns what makes two requests the same and what is refused. The upstream is asked once for a name: whoever asks again, at once, later or
from another place, follows what is recorded.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs

import msgspec

from gateway.dialects import Dialect, Plain
from gateway.dialects.choices import ChoicesDialect
from gateway.dialects.heartbeats import client_of, style_for
from gateway.errors import Failure
from gateway.journal.names import credential_of, fingerprint_of, response_name, stream_name
from gateway.journal.places import HIGHEST, AfterContent, AfterEvent, AfterSequence, Place
from gateway.journal.recorder import Recorder
from gateway.journal.recording import Recording
from gateway.metrics.record import Record
from gateway.policy.controls import NAMES, STREAM_OPTIONS
from gateway.relay.follower import EXPIRED, Follower
from gateway.server.asking import Refused, plain
from gateway.server.call import Call
from gateway.server.controlling import prepared
from gateway.wire import headers, jsontext

if TYPE_CHECKING:
    from gateway.journal.keys import Claim

MOVES: Final = 8  # of a stream from process to process while one request asks for it; more is a fault
UNKNOWN: Final = Failure(
    "stream_unknown", "No stream is held by this key for this credential, so there is nothing to go on with. Ask from the beginning."
)
CONFLICT: Final = Failure(
    "idempotency_conflict", "This Idempotency-Key belongs to a request with another body. Use a new key.", param="Idempotency-Key"
)
# How a follower ended -> what the metric calls it, where that is not how it began.
_RESULTS: Final = {"stream_expired": "expired", "stream_lost": "lost", "idempotency_conflict": "conflict", "stream_unknown": "unknown"}

Request = TypeVar("Request", bound=Call)
Watch = Callable[[Callable[[], None]], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Ticket:
    """name: of the stream. place: from where on it is wanted; None is the beginning. fingerprint: empty where any request will do."""

    name: str
    fingerprint: str
    place: Place | None
    credential: bytes


class _Flags(msgspec.Struct):
    stream: Any = None
    stream_format: Any = None


_FLAGS: Final = msgspec.json.Decoder(_Flags)


def ticket_for(call: Call, body: bytes) -> Ticket | None:
    """For a request in a dialect; None where its answer is no stream or not to be resumable. Refused where its place is no place."""
    if not call.gateway.settings.resume.enabled:
        return None
    signs = (b"idempotency-key", b"last-event-id", b"content-encoding")
    if b"cursor_resume" not in body and all(headers.first(call.fields, sign) is None for sign in signs):
        return None
    fields = call.fields
    body = prepared(call, body)
    ticket = _ticket(call, body) if call.ask.stream else None
    call.fields = fields
    return ticket


def may_resume_other(call: Call) -> bool:
    """Whether a request of a path that is not known here may ask for a stream that can be resumed."""
    return call.method == "POST" and call.gateway.settings.resume.enabled and bool(headers.first(call.fields, b"idempotency-key"))


def other_ticket_for(call: Call, body: bytes) -> Ticket | None:
    if not may_resume_other(call):
        return None
    try:
        flags = _FLAGS.decode(plain(body, call.fields, call.gateway.settings.limits.request_bytes))
    except (msgspec.DecodeError, RecursionError):
        return None
    return _ticket(call, body) if flags.stream is True or flags.stream_format == "sse" else None


def _ticket(call: Call, body: bytes) -> Ticket | None:
    settings, controls = call.gateway.settings, call.controls
    key = headers.first(call.fields, b"idempotency-key")
    last = headers.first(call.fields, b"last-event-id")
    cursor = None if controls is None else controls.cursor
    if not key and not last and cursor is None:
        return None
    dialect = call.dialect or Plain
    place: Place | None = None
    if last:
        number = _number(last, "Last-Event-ID")
        place = AfterEvent(number) if number else None
    elif cursor:
        place = AfterContent(cursor, dialect.name)
    path = call.path or b"/"
    wish = b"" if controls is None else repr((controls.wish, controls.reasoning_limit)).encode()
    asked = _canonical(plain(body, call.fields, settings.limits.request_bytes))
    fingerprint = fingerprint_of([path, call.scope["query_string"], wish, *asked])
    credential = credential_of(call.fields)
    return Ticket(stream_name(credential, path, b"key:" + key if key else b"body:" + fingerprint.encode()), fingerprint, place, credential)


def _without_place(call: Call) -> None:
    """A place is in what this gateway sent, so it says nothing to the upstream. The key may, where it stands beside the client's own
    credential: beside the gateway's, which all clients share, one client's key could be another's."""
    upstream = call.target.upstream
    dropped = (b"last-event-id", b"idempotency-key") if upstream.keys else (b"last-event-id",)
    if not upstream.forward_extensions:
        call.fields = [field for field in call.fields if field[0].lower() not in dropped]


async def follow(call: Request, ticket: Ticket, watch: Watch, work: Callable[[Request], Awaitable[None]]) -> None:
    """Answer from the recording of that name, which `work` makes if there is none: it is given another call, to answer in place of this.

    `watch`: waits for the client to leave, and then calls what it is given.
    """
    desk, name = call.gateway.desk, ticket.name
    moved = False
    for _ in range(MOVES):
        recording = desk.memory.get(name)
        if recording is None and desk.shared is not None and (ticket.place is not None or moved):
            recording = _elsewhere(call, await desk.shared.find(name), ticket.place)
        began = False
        if recording is None:
            if ticket.place is not None:
                raise _refused(call, EXPIRED if desk.memory.is_gone(name) else UNKNOWN)
            recording, began = _record(call, ticket, work), True
        elif ticket.fingerprint not in ("", recording.fingerprint):
            raise _refused(call, CONFLICT)
        reason = await _followed(call, recording, ticket.place, watch, began)
        if reason != "moved":
            return
        moved = True  # where nothing of it is left meanwhile, the next turn begins anew
    raise Refused(Failure("overloaded", "This stream moved between instances while it was asked for. Ask again."))


async def response_held(call: Call, watch: Watch) -> Callable[[], Awaitable[None]] | None:
    """For `GET /v1/responses/{id}?stream=true`: what answers it, where that stream is held for this credential."""
    path, desk = call.path or b"", call.gateway.desk
    response_id = path.removeprefix(b"/responses/")
    if call.method != "GET" or response_id == path or b"/" in response_id or not call.gateway.settings.resume.enabled:
        return None
    query = parse_qs(call.scope["query_string"].decode("latin-1"))
    if query.get("stream", [""])[-1].lower() != "true":
        return None
    name = response_name(credential_of(call.fields), response_id)
    recording, claim = desk.memory.by_response(name), None
    if recording is None and desk.shared is not None:
        claim = await desk.shared.by_response(name)
    if recording is None and (claim is None or claim.gone):
        return None
    if recording is not None and recording.first > 1:
        return None  # the upstream may have more of it
    place: Place | None = None
    if "starting_after" in query:
        place = AfterSequence(_number(query["starting_after"][-1].encode(), "starting_after"))
    elif last := headers.first(call.fields, b"last-event-id"):
        place = AfterEvent(_number(last, "Last-Event-ID"))

    async def answer() -> None:
        followed = recording or _elsewhere(call, claim, place)
        assert followed is not None  # noqa: S101  # one of the two is there
        await _followed(call, followed, place, watch, began=False)

    return answer


def _elsewhere(call: Call, claim: Claim | None, place: Place | None) -> Recording | None:
    if claim is None:
        return None
    if claim.gone:
        if place is not None:
            raise _refused(call, EXPIRED)
        return None
    return call.gateway.desk.follow_elsewhere(claim, call.dialect or Plain, place.begins_at if place is not None else 1)


def _record(call: Request, ticket: Ticket, work: Callable[[Request], Awaitable[None]]) -> Recording:
    """Begin the recording. What is booked of this request is booked at the recording's end, by who makes it."""
    maker = copy.copy(call)
    maker.receive = _nothing
    if call.span is not None:
        maker.span = call.span.recording()
    _without_place(maker)
    call.record = _record_of_a_follower(call, "")

    async def made(recorder: Recorder) -> None:
        maker.send, maker.recorder = recorder.send, recorder
        await work(maker)

    return call.gateway.desk.record(ticket.name, ticket.fingerprint, call.dialect or Plain, ticket.credential, made)


async def _followed(call: Call, recording: Recording, place: Place | None, watch: Watch, began: bool) -> str:
    gateway, settings = call.gateway, call.gateway.settings
    follower = Follower(
        gateway.loop,
        recording,
        place,
        call.send,
        fresh=lambda: _fresh(call),
        clocks=settings.clocks,
        heartbeat_every=settings.heartbeat.every,
        heartbeat_style=style_for(settings.heartbeat.style, recording.dialect.name, client_of(call.fields)),
        request_id=call.request_id,
    )
    result = "replayed" if recording.ended else "joined" if place is None else "resumed"
    if not began:
        call.record = _record_of_a_follower(call, result)
    gateway.desk.followers.add(follower)
    watching = gateway.loop.create_task(watch(follower.leave))
    try:
        reason = await follower.run()
    finally:
        watching.cancel()
        gateway.desk.followers.discard(follower)
        call.record.status = follower.status
    call.record.reason = reason
    call.record.heartbeats_during = follower.heartbeats
    if not began:
        call.record.resume = _RESULTS.get(reason, result)
    return reason


def _record_of_a_follower(call: Call, result: str) -> Record:
    old = call.record
    record = Record(old.operation, old.path, old.model or call.ask.model, False, request_id=old.request_id)
    record.provider, record.resume, record.follows = old.provider, result, True
    return record


def _refused(call: Call, failure: Failure) -> Refused:
    call.record = _record_of_a_follower(call, _RESULTS[failure.code])
    return Refused(failure)


def _fresh(call: Call) -> Dialect:
    made = call.dialect or Plain
    if issubclass(made, ChoicesDialect):
        dialect = made(1, "chatcmpl-" + call.request_id.decode())
        dialect.model = call.ask.model
        return dialect
    return made()


def _canonical(body: bytes) -> list[bytes]:
    """The members of a body in an order of ours, without what only says how it is to be delivered."""
    try:
        top = jsontext.members(body)
        options = top.pop("stream_options", b"null")
        if options.startswith(b"{"):
            kept = {key: raw for key, raw in jsontext.members(options).items() if key not in STREAM_OPTIONS}
            if kept:
                top["stream_options"] = jsontext.join(dict(sorted(kept.items())))
    except ValueError:
        return [body]
    return [part for key in sorted(top) if key not in NAMES for part in (key.encode("utf-8", "surrogatepass"), top[key])]


def _number(value: bytes, name: str) -> int:
    text = value.strip()
    if not text.isdigit() or int(text[:20]) > HIGHEST or len(text) > 20:
        raise Refused(Failure("invalid_control", f"{name} takes a whole number from 0 to {HIGHEST}.", param=name))
    return int(text)


async def _nothing() -> Any:
    """What a recorder's client says: it never leaves."""
    await asyncio.Event().wait()
