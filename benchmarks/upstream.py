"""The upstream of the benchmarks, in a process of its own: `python -m benchmarks.upstream PORT [PEM]`, with TLS where there is a PEM.

As cheap as Python can do it, since it shares the machine with what is measured; but it takes no part in any figure: only the CPU time of
what stands in the middle is counted. Of a request whose prompt is "play NUMBER" it notes when each write was made, so that nobody else is
blamed for what it wrote late; the model "sent" asks for all that was noted, as JSON of nanoseconds by number, and forgets it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import ssl
import sys
import time
from array import array
from functools import lru_cache
from typing import Final

from benchmarks import loads

_MODEL: Final = re.compile(rb'"model"\s*:\s*"([^"]+)"')
_NUMBER: Final = re.compile(rb'"play (\d+)"')
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n"
_STREAM: Final = _HEAD % b"text/event-stream" + b"transfer-encoding: chunked\r\n\r\n"
_JSON: Final = _HEAD % b"application/json" + b"content-length: %d\r\n\r\n%b"
_WHOLE: Final = _JSON % (len(loads.WHOLE), loads.WHOLE)
_SENT: Final[dict[int, array[int]]] = {}  # by number: when each write was made


class Upstream(asyncio.Protocol):
    """One connection; plays one script at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._taken = b""
        self._script: tuple[tuple[float, bytes], ...] = ()
        self._sent: array[int] | None = None
        self._at = 0
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")  # noqa: S101  # uvloop's is none by class
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._taken += data
        while (end := self._taken.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._taken, 0, end + 2)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self._taken) < whole:
                return
            body, self._taken = self._taken[end + 4 : whole], self._taken[whole:]
            model = _MODEL.search(body)
            number = _NUMBER.search(body)
            self._answer(model[1].decode() if model else "json", int(number[1]) if number else None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _answer(self, model: str, number: int | None) -> None:
        if model == "json":
            self._transport.write(_WHOLE)
            return
        if model == "sent":
            told = json.dumps({str(each): list(times) for each, times in _SENT.items()}).encode()
            _SENT.clear()
            self._transport.write(_JSON % (len(told), told))
            return
        self._script, self._at = segments(model), 0
        now_ns = time.monotonic_ns()
        self._sent = None
        if number is not None:
            self._sent = _SENT[number] = array("q", (now_ns,))
        self._transport.write(_STREAM + _chunked(loads.OPENING + loads.first_text(now_ns)))
        self._began = self._loop.time()
        self._timer = self._loop.call_at(self._began + self._script[0][0], self._step)

    def _step(self) -> None:
        script, now = self._script, self._loop.time() - self._began
        while self._at < len(script) and script[self._at][0] <= now + 0.0005:
            if self._sent is not None:
                self._sent.append(time.monotonic_ns())
            self._transport.write(script[self._at][1])
            self._at += 1
        if self._at < len(script):
            self._timer = self._loop.call_at(self._began + script[self._at][0], self._step)
        else:
            self._transport.write(b"0\r\n\r\n")


@lru_cache(maxsize=64)
def segments(model: str) -> tuple[tuple[float, bytes], ...]:
    """The script as it stands on the wire; all streams of a model share it."""
    return tuple((at_s, _chunked(data)) for at_s, data in loads.script(model))


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def serve(port: int, pem: str | None = None) -> None:
    tls = None
    if pem is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pem)
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port, backlog=4096, ssl=tls)
    gc.freeze()
    gc.disable()  # nothing here makes cycles worth a pause
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(int(sys.argv[1]), *sys.argv[2:3]))
