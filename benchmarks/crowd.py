"""The clients of the benchmark of scale, in a process of their own: `python -m benchmarks.crowd PORT UPSTREAM_PORT MODEL STREAMS OVER_S`.

They share the machine with what they judge, so a read costs them a clock, a count and two numbers; all else follows when the last stream
is over. Prints "ended" then, and the figures as JSON when they are there. Every 20th stream is kept as it came and compared to the byte.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import re
import sys
import time
from array import array
from dataclasses import asdict
from typing import Final

import uvloop

from benchmarks import client, loads
from benchmarks.judging import MARK, figures

_END: Final = b"\r\n0\r\n\r\n"  # with the line end before it: a head may end with a 0 too
_KEPT: Final = 20
_PATIENCE_S: Final = 60.0  # for what should be over by itself
_BUFFER: Final = bytearray(256 * 1024)  # for all streams: what is read is counted before the next read
_VIEW: Final = memoryview(_BUFFER)


class Stream(asyncio.BufferedProtocol):
    """times_ns and counts: of each read, and the events that began in it."""

    def __init__(self, asking: bytes, keep: bool) -> None:
        self._asking = asking
        self._tail = b""
        self.began_ns = time.monotonic_ns()
        self.times_ns = array("q")
        self.counts = array("l")
        self.kept: list[bytes] | None = [] if keep else None
        self.status = b""
        self.told = False
        self.ended = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.transport.write(self._asking)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _VIEW

    def buffer_updated(self, nbytes: int) -> None:
        self.times_ns.append(time.monotonic_ns())
        self.counts.append(_BUFFER.count(MARK, 0, nbytes))
        if self.kept is not None:
            self.kept.append(bytes(_VIEW[:nbytes]))
        if not self.status:
            self.status = bytes(_VIEW[9:12])
            if self.status != b"200":
                self.told = b"\nretry-after:" in bytes(_VIEW[:nbytes]).lower()
                self.transport.close()
                return
        if nbytes >= len(_END):
            self._tail = bytes(_VIEW[nbytes - len(_END) : nbytes])
        else:
            self._tail = (self._tail + bytes(_VIEW[:nbytes]))[-len(_END) :]
        if self._tail == _END:
            self.ended = True
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def play(port: int, model: str, count: int, over_s: float) -> list[Stream]:
    """All streams, begun evenly over so many seconds, when the last is over. One that could not connect has no status."""
    loop = asyncio.get_running_loop()
    began, out = loop.time(), []
    for number in range(count):
        if (wait_s := began + over_s * number / count - loop.time()) > 0.001:
            await asyncio.sleep(wait_s)
        asking = client.request(port, model, True).replace(b'"play"', b'"play %d"' % number)
        length = len(asking.partition(b"\r\n\r\n")[2])
        asking = re.sub(rb"content-length: \d+", b"content-length: %d" % length, asking)
        stream = Stream(asking, number % _KEPT == 0)
        out.append(stream)
        try:
            await loop.create_connection(lambda stream=stream: stream, "127.0.0.1", port)  # type: ignore[misc]
        except OSError:
            stream.connection_lost(None)
    await asyncio.wait([stream.done for stream in out], timeout=loads.script(model)[-1][0] + _PATIENCE_S)
    return out


def sent(port: int) -> dict[int, list[int]]:
    """When the upstream made each write of each stream."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/v1/chat/completions", b'{"model":"sent"}')
    told = json.load(connection.getresponse())
    connection.close()
    return {int(number): times for number, times in told.items()}


def main(port: int, upstream: int, model: str, count: int, over_s: float) -> None:
    loads.script(model)
    gc.freeze()
    gc.disable()  # a pause of the clients' would be the gateway's lateness
    streams = uvloop.run(play(port, model, count, over_s))
    print("ended", flush=True)
    print(json.dumps(asdict(figures(model, streams, sent(upstream)))), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
