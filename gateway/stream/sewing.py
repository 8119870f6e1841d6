"""What a stream keeps and does so that it can go on after its upstream died: the trail of what was said, and the seam to what follows.

One a stream, for streams whose route asks for it. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.dialects.base import FAULTS
from gateway.dialects.seams import Seam
from gateway.dialects.trails import Trail
from gateway.errors import Failure
from gateway.policy.classify import Verdict, verdict_of
from gateway.wire import jsontext
from gateway.wire.sse import Event

_ID: Final = re.compile(rb"^id:[ ]?(.*)$", re.MULTILINE)


class Sewing:
    """cut: the failure that the stream would end with. refused: nobody will go on from it. seams: how often it went on; told: the comment
    that stands there. last_id, last_number: of the upstream's events, the newest that came whole; response_id: its name there."""

    def __init__(self, trail: Trail | None, ids: bool = False) -> None:
        """`trail`: None where the upstream itself knows how to go on. `ids`: its events carry ids, which are noted."""
        self.trail = trail
        self.cut: Failure | None = None
        self.refused = False
        self.told = b""
        self.seams = 0
        self.last_id: bytes | None = None
        self.last_number: int | None = None
        self.response_id: str | None = None
        self._ids = ids
        self._begun = b""
        self._seam: Seam | None = None
        self._sewn = True

    def mends(self, failure: Failure) -> bool:
        """Whether this is a death that one may go on from, or what became of going on from it."""
        self.refused = verdict_of(failure, own_key=False) not in (Verdict.AGAIN, Verdict.LIMITED)
        return not self.refused or (not self._sewn and failure.code.startswith("upstream_"))

    def severed(self, failure: Failure) -> None:
        self.cut = self.cut or failure

    def begin(self, seam: Seam, told: bytes) -> None:
        """What follows comes from another answer."""
        self._seam, self.told, self._begun, self._sewn = seam, told, b"", False

    def raw(self, data: bytes) -> None:
        """The upstream's bytes, for their ids."""
        if not self._ids:
            return
        whole, end, rest = (self._begun + data.replace(b"\r", b"")).rpartition(b"\n\n")
        self._begun = rest
        found = _ID.findall(whole) if end else []
        if found:
            self.last_id = found[-1]

    def take(self, events: list[Event]) -> list[Event]:
        """The upstream's events as the client's stream goes on with them."""
        if self._seam is not None:
            events = [each for event in events for each in self._sewn_to(self._seam, event)]
        self._note(events)
        return events

    def _sewn_to(self, seam: Seam, event: Event) -> list[Event]:
        try:
            return seam.take(event)
        except FAULTS:  # members of types that nobody sends: the dialect will say what to make of it
            return [event]

    @property
    def just_sewn(self) -> bool:
        """Once, with the first events after a seam."""
        sewn, self._sewn = self._sewn, True
        if not sewn:
            self.seams += 1
            self.cut = None
        return not sewn

    def _note(self, events: list[Event]) -> None:
        for event in events:
            if self.trail is not None:
                self.trail.note(event)
            elif not self._ids and b'"sequence_number"' in event.data:
                self._number(event)

    def _number(self, event: Event) -> None:
        try:
            top = jsontext.value(event.data)
            number, response = top.get("sequence_number"), top.get("response")
        except (ValueError, AttributeError):
            return
        if isinstance(number, int):
            self.last_number = number
        if isinstance(response, dict) and isinstance(response.get("id"), str):
            self.response_id = response["id"]
