"""One play of one load through one contestant, and what it cost.

Only the contestant's CPU time is counted, kernel included; clients and upstream have processes of their own. A window of the steady part is
taken where there is one: what streams cost to begin and to end is a request's cost, measured for itself.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from benchmarks import client, meter
from benchmarks.contestants import Running

_PATIENCE_S: Final = 20.0  # for the ends of streams that should be over by themselves
_SETTLE_S: Final = 0.7  # after the last stream began, before the window opens


@dataclass
class Play:
    """cpu_s in the window, over `events` and `reads` (a read of a client is a write of the contestant), or over `requests`.

    wanted: events that the upstream wrote in the window, where a contestant may deliver fewer.
    """

    cpu_s: float = 0.0
    events: int = 0
    reads: int = 0
    requests: int = 0
    failed: int = 0
    wanted: int = 0
    core_share: float = 0.0
    bytes_a_stream: float = 0.0
    first_s: list[float] = field(default_factory=list)


async def window(running: Running, model: str, streams: int, seconds: float) -> Play:
    """Many streams at once; the window is `seconds` long, and begins when all are there."""
    seen = client.Seen()
    loop = asyncio.get_running_loop()
    made = await client.streams(running.port, model, streams, seen, 0.5, running.extra)
    await asyncio.sleep(_SETTLE_S)
    cpu, events, reads, began = meter.cpu_s(running.pid), seen.events, seen.reads, loop.time()
    await asyncio.sleep(seconds)
    play = Play(cpu_s=meter.cpu_s(running.pid) - cpu, events=seen.events - events, reads=seen.reads - reads)
    play.core_share = play.cpu_s / (loop.time() - began)
    await _over(made, play)
    play.first_s = seen.first_s
    return play


async def full(running: Running, rate: int, streams: int, seconds: float) -> Play:
    """More than some keep up with, so many events a second on each stream: the window opens when each has begun, no end is waited for."""
    seen = client.Seen()
    loop = asyncio.get_running_loop()
    made = await client.streams(running.port, f"trickle/{rate}/60", streams, seen, 0.5, running.extra)
    until = loop.time() + _PATIENCE_S
    while len(seen.first_s) < streams and loop.time() < until:  # noqa: ASYNC110  # the streams shall do nothing more for it
        await asyncio.sleep(0.1)
    await asyncio.sleep(_SETTLE_S)
    cpu, events, began = meter.cpu_s(running.pid), seen.events, loop.time()
    await asyncio.sleep(seconds)
    lasted_s = loop.time() - began
    play = Play(cpu_s=meter.cpu_s(running.pid) - cpu, events=seen.events - events, wanted=int(rate * streams * lasted_s))
    play.core_share = play.cpu_s / lasted_s
    play.failed = streams - len(seen.first_s) + sum(stream.done.done() for stream in made)  # none may be over yet
    for stream in made:
        stream.transport.abort()
    await _quiet(running)
    return play


async def whole(running: Running, model: str, streams: int, over_s: float) -> Play:
    """Streams from their beginning to their end."""
    seen = client.Seen()
    cpu = meter.cpu_s(running.pid)
    made = await client.streams(running.port, model, streams, seen, over_s, running.extra)
    await asyncio.gather(*(stream.done for stream in made))
    play = Play(meter.cpu_s(running.pid) - cpu, seen.events, seen.reads, streams, streams - seen.ended)
    play.first_s = seen.first_s
    return play


async def short(running: Running, requests: int, connections: int = 16, stream: bool = False) -> Play:
    """Short requests on kept connections: JSON, or a stream of two events."""
    seen = client.Seen()
    model = "short" if stream else "json"
    await client.requests(running.port, model, connections, 2, seen, stream, running.extra)  # connections are there
    seen = client.Seen()
    cpu = meter.cpu_s(running.pid)
    each = max(1, requests // connections)
    await client.requests(running.port, model, connections, each, seen, stream, running.extra)
    return Play(cpu_s=meter.cpu_s(running.pid) - cpu, requests=seen.ended, failed=seen.failed)


async def memory(running: Running, streams: int) -> Play:
    """What an open stream keeps resident, in the contestant alone."""
    seen = client.Seen()
    before = meter.resident_bytes(running.pid)
    made = await client.streams(running.port, "hold/2", streams, seen, streams / 500, running.extra)
    await asyncio.sleep(0.5)
    play = Play(requests=streams, bytes_a_stream=(meter.resident_bytes(running.pid) - before) / streams)
    await _over(made, play)
    return play


async def _quiet(running: Running) -> None:
    """What was not delivered is dropped: the next contestant's round begins when this one rests."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _PATIENCE_S
    while loop.time() < until:
        cpu = meter.cpu_s(running.pid)
        await asyncio.sleep(0.5)
        if meter.cpu_s(running.pid) - cpu < 0.05:
            return


async def _over(made: list[client.Stream], play: Play) -> None:
    """Waits for the ends; a stream that does not come to its own is counted."""
    _, waiting = await asyncio.wait([stream.done for stream in made], timeout=_PATIENCE_S)
    play.failed = len(waiting)
    for stream in made:
        stream.transport.abort()
