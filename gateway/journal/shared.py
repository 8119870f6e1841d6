"""Recordings in Redis or Valkey, so that any process can go on with a stream that another one records.

Owns who records a stream (the claim), who is alive (the lease), the writing behind, and what becomes of it when Redis fails. Invariants:
no stream waits for Redis; a copy that misses an entry is not written to any more, so that what is read has no gap; while a claim stands
there is one generation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from gateway.journal.copying import SharedCopy
from gateway.journal.keys import REMEMBERED_S, Claim, key, ms

LOG: Final = logging.getLogger("decluster")
CONNECTIONS: Final = 16  # one writes, one reads what others record, the rest are for claims, which take a millisecond each
ANSWER_S: Final = 1.0  # what Redis may take for one answer: it stands in the way of a request only once, at its claim
REST_S: Final = 5.0  # after trouble nothing is asked of it for so long, so that no request waits for what is not there
PENDING_BYTES: Final = 32 * 2**20  # not yet written, of all streams together; more means that it does not keep up
FAULTS: Final = (RedisError, OSError, TimeoutError)
# Takes a claim over whose stream is gone: only if it still is that one.
_REPLACE: Final = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3]) end"

Answer = TypeVar("Answer")


class Shared:
    """When Redis fails, the copies of all that runs are lost: it is said once."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, url: str, *, hold_s: float, lease_s: float, grace_s: float, stream_bytes: int
    ) -> None:
        self.redis: Redis = Redis.from_pool(
            BlockingConnectionPool.from_url(
                url,
                max_connections=CONNECTIONS,
                timeout=ANSWER_S,
                socket_timeout=ANSWER_S,
                socket_connect_timeout=ANSWER_S,
                retry=Retry(NoBackoff(), 1),
                protocol=2,
            )
        )
        self.lease_s = lease_s
        self.presence_s = max(grace_s, lease_s)
        self._loop = loop
        self._hold_s = hold_s
        self._stream_bytes = stream_bytes
        self._copies: dict[str, SharedCopy] = {}
        self._pending: list[tuple[SharedCopy, tuple[Any, ...]]] = []
        self._pending_bytes = 0
        self._wake = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()
        self._down_until = float("-inf")
        self._down = False
        self._tasks = [loop.create_task(self._write()), loop.create_task(self._renew())]

    # Claims

    async def claim(self, name: str, fingerprint: str) -> Claim | None:
        """Mine, or whose it is; None where Redis does not answer."""
        return await self.asked(lambda: self._claim(name, fingerprint))

    async def _claim(self, name: str, fingerprint: str) -> Claim:
        uid = secrets.token_hex(12)
        mine = Claim(name, uid, fingerprint, mine=True)
        value = f"{uid} {fingerprint}"
        while True:
            pipe = self.redis.pipeline(transaction=False)
            pipe.set(key("l", uid), b"1", px=ms(self.lease_s))
            pipe.set(key("k", name), value, nx=True, px=self._claim_ms)
            if (await pipe.execute())[1]:
                return mine
            found = await self._find(name)
            if found is None:
                continue  # it went away in between
            if not found.gone:
                await self.redis.delete(key("l", uid))
                return found
            old = f"{found.uid} {found.fingerprint}"
            if await self.redis.eval(_REPLACE, 1, key("k", name), old, value, str(self._claim_ms)):
                return mine

    async def find(self, name: str) -> Claim | None:
        """The claim of that name; None where there is none, or Redis does not answer."""
        return await self.asked(lambda: self._find(name))

    async def _find(self, name: str) -> Claim | None:
        value: Any = await self.redis.get(key("k", name))
        if value is None:
            return None
        uid, _, fingerprint = value.decode().partition(" ")
        alive = await self.redis.exists(key("s", uid), key("l", uid))
        return Claim(name, uid, fingerprint, gone=not alive)

    async def by_response(self, response: str) -> Claim | None:
        async def look() -> Claim | None:
            name: Any = await self.redis.get(key("r", response))
            return None if name is None else await self._find(name.decode())

        return await self.asked(look)

    async def followed(self, uid: str) -> bool:
        return bool(await self.asked(lambda: self.redis.exists(key("a", uid))))

    async def asked(self, question: Callable[[], Awaitable[Answer]]) -> Answer | None:
        """The answer to a question; None where there is none to be had now."""
        if self._loop.time() < self._down_until:
            return None
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await question()
        except FAULTS as error:
            self.trouble(error)
            return None
        self.well()
        return answer

    # Health

    def trouble(self, error: BaseException) -> None:
        """It failed: what is recorded goes on in memory only."""
        self._down_until = self._loop.time() + REST_S
        for copy in self._copies.values():
            copy.lost = True
        lost = len(self._copies)
        self._copies.clear()
        self._pending.clear()
        self._pending_bytes = 0
        if not self._down or lost:
            LOG.warning("redis failed: streams are resumable in this process only", extra={"error": type(error).__name__, "streams": lost})
        self._down = True

    def well(self) -> None:
        if self._down:
            self._down = False
            LOG.info("redis answers again: new streams are resumable everywhere")

    # Writing

    def copy(self, claim: Claim) -> SharedCopy:
        made = self._copies[claim.uid] = SharedCopy(self, claim, self._stream_bytes)
        return made

    def write(self, copy: SharedCopy, *command: Any, size: int = 0) -> None:
        if copy.lost:
            return
        self._pending.append((copy, command))
        self._pending_bytes += size
        if self._pending_bytes > PENDING_BYTES:
            self.trouble(TimeoutError())
        else:
            self._written.clear()
            self._wake.set()

    def over(self, copy: SharedCopy) -> None:
        """Nothing more comes: it is held a while."""
        self._copies.pop(copy.claim.uid, None)

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            pending, self._pending, self._pending_bytes = self._pending, [], 0
            if not pending:
                self._written.set()
                continue
            pipe = self.redis.pipeline(transaction=False)
            for _, command in pending:
                pipe.execute_command(*command)
            try:
                answers = await pipe.execute(raise_on_error=False)
            except FAULTS as error:
                self.trouble(error)
                answers = [None] * len(pending)
            for (copy, _), answer in zip(pending, answers, strict=True):
                if isinstance(answer, Exception) and not copy.lost:
                    copy.lost = True
                    self._copies.pop(copy.claim.uid, None)
                    LOG.warning("redis refused a stream: it is resumable in this process only", extra={"error": type(answer).__name__})
            if not self._pending:
                self._written.set()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.lease_s / 3)
            for copy in tuple(self._copies.values()):
                copy.renew()

    async def flush(self, within_s: float) -> None:
        """Wait until what was written has arrived."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._written.wait()

    async def close(self) -> None:
        await self.flush(ANSWER_S)
        await stopped(self._tasks)
        await self.redis.aclose()

    @property
    def _claim_ms(self) -> int:
        return ms(self.held_s + REMEMBERED_S)

    @property
    def held_s(self) -> float:
        """How long what is not renewed stands: the hold, and no shorter than a process can be silent and alive."""
        return max(self._hold_s, 3 * self.lease_s)


async def stopped(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel them until they end: a client of Redis can swallow a cancellation that meets its answer."""
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=0.1)
