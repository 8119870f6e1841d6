"""A stream that may go on after its upstream died: from another attempt at the same answer, or from another answer. Pure, as its base.

Owns the phase SEVERED, between the death and what follows: what is held leaves meanwhile, heartbeats too, nothing comes.
"""

from __future__ import annotations

from gateway.dialects.base import structure
from gateway.dialects.seams import Seam
from gateway.errors import Failure
from gateway.stream.machine import Phase, Stream
from gateway.stream.reading import read_events
from gateway.stream.sewing import Sewing
from gateway.wire.sse import Decoder, Event


class MendableStream(Stream):
    """`sewing`: set before the first byte, where the request allows it; None: its death is told, as any stream's."""

    __slots__ = ("sewing",)

    def _made(self) -> None:
        self.sewing: Sewing | None = None
        self.straight = False  # what passes is to be known to the seam

    def receive(self, now: float, data: bytes) -> None:
        sewing = self.sewing
        if sewing is None or not self.wants_upstream:
            super().receive(now, data)
            return
        sewing.raw(data)
        idle = self.dialect.idle
        events = self._decoder.events_in(self._decoder.whole(data))
        self._clockwork.hangs(now, self._decoder.hanging)
        self._heed(now, read_events(self.dialect, self._sewn(now, sewing, sewing.take(events))), idle)

    def fail(self, now: float, failure: Failure) -> None:
        sewing = self.sewing
        if self.phase is not Phase.OPEN or sewing is None or not sewing.mends(failure):
            if self.phase is not Phase.SEVERED:
                super().fail(now, failure)
            return
        sewing.severed(failure)
        self.failure = failure
        self.wants_upstream = False
        self.phase = Phase.SEVERED

    def mend(self, now: float, seam: Seam, told: bytes) -> None:
        """It goes on with what comes next. `told`: a comment where it does, for those who read the stream itself."""
        if self.sewing is None:
            return
        self.sewing.begin(seam, told)
        self.dialect.failure = self.failure = None
        self.wants_upstream, self.phase = True, Phase.OPEN
        self._decoder = Decoder(self._event_bytes, lenient=self.dialect.closes)
        self._clockwork.restart(now)

    def give_up(self, now: float) -> None:
        """It does not go on: the failure that it died of is told."""
        cut = None if self.sewing is None else self.sewing.cut
        if self.phase is Phase.SEVERED and (cut or self.failure) is not None:
            self.phase = Phase.OPEN
            super().fail(now, cut or self.failure or Failure("internal", ""))

    def _late_events(self, now: float, events: list[Event], last: bool) -> list[Event]:
        if self.sewing is None:
            return events
        return self._sewn(now, self.sewing, self.sewing.take(events))

    def _sewn(self, now: float, sewing: Sewing, events: list[Event]) -> list[Event]:
        if events and sewing.just_sewn:
            self._clockwork.content_came()
            self.pacer.push(now, structure(sewing.told))
        return events
