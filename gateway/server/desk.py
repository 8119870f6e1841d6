"""The recordings that this process makes and follows: one desk for all requests.

Owns the tasks that record, which outlive the requests that began them, and their end with the process. It must not know what a request asks
for. Invariants: a stream that is recorded is ended by its own end, by nobody coming back within the grace, or by the process's; none of its
followers ever ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from gateway.dialects import Dialect
from gateway.errors import Failure
from gateway.journal.memory import Memory
from gateway.journal.names import response_name
from gateway.journal.recorder import Bounds, Recorder
from gateway.journal.recording import Recording
from gateway.relay.follower import Follower
from gateway.settings import Settings

if TYPE_CHECKING:
    from gateway.journal.elsewhere import Elsewhere
    from gateway.journal.keys import Claim
    from gateway.journal.shared import Shared

BROKEN: Final = Failure("internal", "The gateway failed in the middle of this answer, so it is cut short. Ask again.")
_ENDING: Final = Failure("shutting_down", "The gateway is shutting down and could not finish this answer. Ask again.")
_ENDING_S: Final = 2.0  # for the last words of what is recorded to reach those who follow it elsewhere


class Desk:
    """shared: None where recordings stay in this process. followers: all clients that follow a recording."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        resume = settings.resume
        self._loop = loop
        self._bounds = Bounds(resume.grace, resume.stream_bytes, settings.limits.stream_bytes, settings.limits.event_bytes)
        self.memory = Memory(loop, bound_bytes=resume.total_bytes, hold_s=resume.hold)
        self.followers: set[Follower] = set()
        self._running: dict[asyncio.Task[None], Recorder] = {}
        self.shared: Shared | None = None
        self._elsewhere: Elsewhere | None = None
        if resume.enabled and resume.redis is not None:
            from gateway.journal.elsewhere import Elsewhere
            from gateway.journal.shared import Shared

            self.shared = Shared(
                loop, resume.redis, hold_s=resume.hold, lease_s=resume.lease, grace_s=resume.grace, stream_bytes=resume.stream_bytes
            )
            self._elsewhere = Elsewhere(loop, self.shared, settings.limits.stream_bytes)

    @property
    def recording(self) -> int:
        """How many are being made here."""
        return len(self._running)

    def record(
        self, name: str, fingerprint: str, dialect: type[Dialect], credential: bytes, work: Callable[[Recorder], Awaitable[None]]
    ) -> Recording:
        """Begin one: `work` sends the answer to the recorder, in a task of the desk's."""
        recording = Recording(name, fingerprint, dialect)
        recorder = Recorder(self._loop, recording, self.memory, self._bounds)
        self.memory.add(recording)
        if dialect.name == "responses":
            recorder.on_response = lambda response_id: self._know_response(recorder, response_name(credential, response_id))
        task = self._loop.create_task(self._record(recorder, work))
        recorder.fail = lambda _: (task.cancel(), None)[1]  # until there is an answer to be ended
        self._running[task] = recorder
        task.add_done_callback(lambda task: self._running.pop(task, None))
        return recording

    async def _record(self, recorder: Recorder, work: Callable[[Recorder], Awaitable[None]]) -> None:
        recording = recorder.recording
        try:
            if self.shared is not None:
                claim = await self.shared.claim(recording.name, recording.fingerprint)
                if claim is not None and not claim.mine:
                    recorder.moved(claim.uid)
                    return
                if claim is not None:
                    recorder.copy = self.shared.copy(claim)
            if not recorder.given_up:
                await work(recorder)
        finally:
            recorder.break_off(BROKEN)

    def _know_response(self, recorder: Recorder, response: str) -> None:
        self.memory.name_response(response, recorder.recording)
        if recorder.copy is not None:
            recorder.copy.is_response(response)

    def follow_elsewhere(self, claim: Claim, dialect: type[Dialect], begins_at: int) -> Recording:
        assert self._elsewhere is not None  # noqa: S101  # claims come from `shared`
        return self._elsewhere.follow(claim, dialect, begins_at)

    # The process's end

    def draining(self) -> None:
        """New connections are not taken any more: nobody can come back to what is in this memory only."""
        for recorder in tuple(self._running.values()):
            if recorder.copy is None and not recorder.recording.followers:
                recorder.give_up(_ENDING)

    @property
    def guests(self) -> set[Follower]:
        """Who follows a recording of another process: when this one ends, that does not."""
        return {follower for follower in self.followers if follower.recording.uid}

    async def drained(self) -> None:
        """Wait until all that is recorded here has ended."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def close(self) -> None:
        for recorder in tuple(self._running.values()):
            recorder.give_up(_ENDING)
        if running := set(self._running):
            _, late = await asyncio.wait(running, timeout=_ENDING_S)
            while late:
                for task in late:
                    task.cancel()
                _, late = await asyncio.wait(late, timeout=0.1)
        self.memory.close()
        if self._elsewhere is not None:
            await self._elsewhere.close()
        if self.shared is not None:
            await self.shared.close()
