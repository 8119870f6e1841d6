"""How a stream goes on whose upstream died in the middle, by its route's `on_cut`: resumed there, or continued from its text.

Owns what is asked of whom for that, and the count of what came of it. Nothing is tried that could repeat what was delivered: where the
place in the stream is not exactly known, or cannot be gone on from, the stream ends with its honest error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.dialects import Messages, Responses
from gateway.dialects.choices import ChoicesDialect
from gateway.dialects.completions import Completions
from gateway.dialects.seams import AfterNumber, OfChoices, OfMessages, Seam
from gateway.dialects.trails import Trail
from gateway.policy.continuing import continued
from gateway.relay.exchange import Exchange
from gateway.relay.tries import Tries
from gateway.server.call import Call
from gateway.settings import Route, RouteTarget
from gateway.stream import MendableStream
from gateway.stream.sewing import Sewing

_WORDS: Final = {"resume": b"resumed", "continue": b"continued", "fallback": b"continued elsewhere"}


@dataclass(frozen=True, slots=True)
class Onward:
    """The request that goes on with a stream; None stands for what the first request had."""

    body: bytes | None = None
    fields: tuple[tuple[bytes, bytes], ...] = ()
    path: bytes | None = None
    query: bytes | None = None


class Mending:
    """One stream's. `onward`: what is sent for the attempt that goes on; None before the first cut."""

    def __init__(self, call: Call, route: Route, tries: Tries, aimed: Callable[[], bytes | None]) -> None:
        """`aimed`: makes the call one to the current attempt's target, and gives its body."""
        self._call = call
        self._route = route
        self._tries = tries
        self._aimed = aimed
        self._made = 0
        self._sewing: Sewing | None = None
        self.onward: Onward | None = None

    def watch(self, exchange: Exchange) -> None:
        """From the stream's beginning on."""
        call = self._call
        controls = call.controls
        resumes = self._route.on_cut == "resume"
        plain = controls is not None and not controls.wish.changes and call.ask.choices == 1
        stream = exchange.stream
        if (not resumes and not plain) or not isinstance(stream, MendableStream):
            return
        tags = call.gateway.settings.reasoning.tags
        by_id = resumes and call.target.upstream.cut.resume == "cursor"
        self._sewing = stream.sewing = Sewing(None if resumes else Trail(tags), ids=by_id)
        exchange.mending = self.mend

    @property
    def named(self) -> bool:
        """Whether the request carries a name, under which an upstream that is such a gateway as this keeps the stream."""
        return self._route.on_cut == "resume" and self._call.target.upstream.cut.resume == "cursor"

    def mend(self) -> tuple[Seam, bytes] | None:
        """The seam to what the tries open next, and the comment that tells of it; None: it cannot be, or was tried enough."""
        gateway, mode = self._call.gateway, self._route.on_cut
        if self._sewing is None or self._made >= gateway.settings.retry.attempts or gateway.draining:
            return None
        if self._sewing.refused and mode != "fallback":
            return None
        seam = self._resumed(self._sewing) if mode == "resume" else self._continued(self._sewing)
        if seam is None:
            if not self._made:
                gateway.metrics.continuations.add((mode, "impossible"))
            return None
        self._made += 1
        code = b"" if self._sewing.cut is None else self._sewing.cut.code.encode()
        return seam, b": decluster %b after %b\n\n" % (_WORDS[mode], code)

    def book(self) -> None:
        """The stream is over."""
        metrics, mode = self._call.gateway.metrics, self._route.on_cut
        if self._sewing is not None and self._made:
            if self._sewing.seams:
                metrics.continuations.add((mode, "continued"), self._sewing.seams)
            if self._sewing.cut is not None:
                metrics.continuations.add((mode, "failed"))

    def _resumed(self, sewing: Sewing) -> Seam | None:
        how = self._call.target.upstream.cut.resume
        if how == "cursor" and sewing.last_id:
            onward, seam = Onward(fields=((b"last-event-id", sewing.last_id),)), Seam()
        elif how == "responses" and self._call.dialect is Responses and sewing.response_id and sewing.last_number is not None:
            query = b"stream=true&starting_after=%d" % sewing.last_number
            onward = Onward(path=b"/responses/" + sewing.response_id.encode(), query=query)
            seam = AfterNumber(sewing.last_number)
        else:
            return None
        if self._tries.attempts.go_on(self._call.gateway.loop.time(), lambda target: True, elsewhere=False) is None:
            return None
        self.onward = onward
        return seam

    def _continued(self, sewing: Sewing) -> Seam | None:
        trail, call = sewing.trail, self._call
        if trail is None or not trail.may_continue:
            return None
        following = self._tries.attempts.go_on(call.gateway.loop.time(), self._prefills, elsewhere=self._route.on_cut == "fallback")
        body = None if following is None else self._aimed()
        if following is None or body is None or call.dialect is None:
            return None
        made = continued(call.dialect.name, body, trail.text, call.target.upstream.cut.prefill)
        if made is None:
            return None
        self.onward = Onward(body=made)
        return OfMessages(trail) if issubclass(call.dialect, Messages) else OfChoices(trail)

    def _prefills(self, target: RouteTarget) -> bool:
        prefill = self._call.gateway.places[target.upstream].upstream.cut.prefill
        if self._call.dialect in (Completions, Messages):
            return prefill != "none"
        return prefill != "none" and self._call.dialect is not None and issubclass(self._call.dialect, ChoicesDialect)


def mending_for(call: Call, tries: Tries, aimed: Callable[[], bytes | None]) -> Mending | None:
    """None where the stream's death is to be told, as it is by default."""
    route = call.route
    return None if route is None or route.on_cut == "error" else Mending(call, route, tries, aimed)
