"""One stream on a virtual clock: what the relay does with it, without sockets and without waiting.

Follows gateway/relay/exchange.py: a frame is asked for when bytes came, at the shared timer while tokens are held, and at `wakeup`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.dialects.base import Dialect
from gateway.dialects.chat import Chat
from gateway.errors import Failure
from gateway.pacing.pacer import Pacer, Unpaced
from gateway.settings import Clocks, Pacing
from gateway.stream import Phase, Stream
from support.plays import sse

FRAME_S: Final = Pacing().frame
NEVER: Final = float("inf")
# A stream that wants nothing more and holds nothing, yet does not end, would turn here for ever.
STEPS: Final = 100_000

Arrival = tuple[float, bytes]
Sent = tuple[float, bytes]


def stream(dialect: Dialect | None = None, *, raw: bool = False, now: float = 0.0, every: float = 15.0, **options: Any) -> Stream:
    """`every`: of the heartbeat. Other options: `clocks` (a dict), `style`, `event_bytes`, `pacing`."""
    return Stream(
        now,
        dialect or Chat(),
        Unpaced() if raw else Pacer(options.get("pacing", Pacing())),
        Clocks(**options.get("clocks", {})),
        heartbeat_every=every,
        heartbeat_style=options.get("style", "comment"),
        event_bytes=options.get("event_bytes", 2**24),
    )


class Relay:
    """Drives a stream. sent: (time, frame) in order. refused: it failed before anything had been sent."""

    def __init__(self, stream: Stream, now: float = 0.0) -> None:
        self.stream = stream
        self.now = now
        self.sent: list[Sent] = []
        self.refused = False
        self.blocked = False  # the client takes nothing
        self._frame_at = NEVER

    @property
    def over(self) -> bool:
        return self.refused or self.stream.phase is Phase.ENDED

    def play(self, arrivals: Sequence[Arrival], end: Failure | bool | None = None, until: float = NEVER) -> list[Sent]:
        """Bytes at their times, then at once the body's end: True properly, a Failure broken off, None not at all. Goes on until the stream
        is over, nothing can happen any more, or that time has come."""
        for at, data in arrivals:
            self.run_until(at)
            if self.over:
                return self.sent
            self.stream.receive(at, data)
            self._flush()
        if end is not None:
            if not self.over:
                self.stream.upstream_ended(self.now, end if isinstance(end, Failure) else None)
                self._flush()
        self.run_until(until)
        return self.sent

    def run_until(self, at: float) -> None:
        """Let time pass."""
        for _ in range(STEPS):
            soonest = min(self._frame_at, self.stream.wakeup())
            if self.over or self.blocked or soonest > at or soonest == NEVER:
                if at != NEVER:
                    self.now = max(self.now, at)
                return
            self.now = max(self.now, soonest)
            if self._frame_at <= self.now:
                self._frame_at = NEVER
            if self.stream.wakeup() <= self.now:
                self._send(self.stream.tick(self.now))
            self._flush()
        raise AssertionError("the stream does not come to an end")

    def unblock(self, at: float) -> None:
        """The client takes again what is written to it."""
        self.now, self.blocked = at, False
        self.stream.waited_for_client(at)
        self._flush()

    def _flush(self) -> None:
        stream = self.stream
        if self.blocked:
            return
        if stream.phase is Phase.HOLDING and stream.failure is not None:
            if not self.sent:
                self.refused = True
                return
            stream.tell(self.now)
        self._send(stream.due(self.now))
        if stream.pacing and self._frame_at == NEVER:
            self._frame_at = self.now + FRAME_S

    def _send(self, data: bytes) -> None:
        if data:
            self.sent.append((self.now, data))


def body(sent: Sequence[Sent]) -> bytes:
    return b"".join(data for _, data in sent)


def at_once(*datas: str) -> list[Arrival]:
    """Events with these data in one read at 0."""
    return [(0.0, sse(datas))]


def spread(datas: Sequence[str], gap_s: float, start_s: float = 0.0) -> list[Arrival]:
    """An event a read."""
    return [(start_s + gap_s * index, sse([data])) for index, data in enumerate(datas)]
