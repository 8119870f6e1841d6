"""An HTTP/2 upstream that plays a script, as support.upstream's does over HTTP/1.1, and is asked about it in the same words."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence

from h2.errors import ErrorCodes

from support.http2 import Call, Http2Upstream
from support.plays import Play
from support.upstream import Attempt


class PlayedHttp2(Http2Upstream):
    """Attempt n is answered by play n, later ones by the last play. A play may end in `h2_rst:CODE`, too."""

    def __init__(self, *plays: Play, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=tls)
        self.plays: Sequence[Play] = plays
        self.attempts: list[Attempt] = []
        self._go = asyncio.Semaphore(0)

    @property
    def url(self) -> str:
        return super().url.removesuffix("/chat/completions")

    def go(self, times: int = 1) -> None:
        """Let so many gated writes leave."""
        for _ in range(times):
            self._go.release()

    async def asked(self, count: int = 1) -> Attempt:  # type: ignore[override]
        await self.until(lambda: len(self.attempts) >= count)
        return self.attempts[count - 1]

    async def left(self, attempt: Attempt) -> float:
        call = self.calls[self.attempts.index(attempt)]
        await self.until(lambda: call.left_at is not None)
        assert call.left_at is not None
        attempt.left_at = call.left_at
        return call.left_at

    def begun(self, call: Call) -> None:
        now = asyncio.get_running_loop().time()
        method, target = (call.named(name) or b"" for name in (b":method", b":path"))
        self.attempts.append(Attempt(method.decode(), target.decode(), call.fields, now))

    async def respond(self, call: Call) -> None:
        index = self.calls.index(call)
        play, attempt = self.plays[min(index, len(self.plays) - 1)], self.attempts[index]
        attempt.body, attempt.whole = call.body, True
        if play.header_delay_s is None:
            return
        await asyncio.sleep(play.header_delay_s)
        call.head(play.status, play.fields)
        for write in play.writes:
            if write.gated:
                await self._go.acquire()
            if write.after_s:
                await asyncio.sleep(write.after_s)
            attempt.wrote_at.append(asyncio.get_running_loop().time())
            self.changed()
            await call.data(write.data)
        if play.end == "hang":
            return
        attempt.finished = True
        if play.end == "close":
            call.end()
        elif play.end == "reset":
            call.link.transport.abort()
        else:
            call.cut(ErrorCodes[play.end.removeprefix("h2_rst:")])
