"""Flow control: what a stream may leave unread, that it grows, and that a reader who waits holds up nobody but its own upstream."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.http2 import CONNECTION_BYTES
from gateway.upstream.proxies import Proxies
from gateway.upstream.transport import Transport
from gateway.upstream.windows import FAST_S, Reserve, Window
from support.http2 import Call

from .http2_servers import Flood, Raw, Scripted, frame
from .readers import Recorder, ask, body_of, read, turns

HOLD, MOST = 256 * 1024, 2 * 2**20


@pytest.mark.anyio
async def test_a_reader_that_waits_holds_up_its_own_upstream_and_nobody_else(h2c: Transport) -> None:
    async with Flood(64 * 2**20) as upstream:
        slow = [Recorder() for _ in range(20)]
        bodies = [body_of(await ask(h2c, upstream.url + "/slow")) for _ in slow]
        for body, sink in zip(bodies, slow, strict=True):
            body.attach(sink)
            body.pause()
        before = [len(sink.bytes) for sink in slow]
        await upstream.until(lambda: len(upstream.sent_bytes) == 20 and all(call.room <= 0 for call in upstream.calls))
        for _ in range(50):
            assert await read(await ask(h2c, upstream.url)) == b"ok"
        assert upstream.connections == 1
        assert [len(sink.bytes) for sink in slow] == before
        for call in upstream.calls[:20]:
            assert call.room <= 0
            assert upstream.sent_bytes[call] <= MOST + 2**18
        bodies[7].resume()
        await slow[7].until_end()
        assert (len(slow[7].bytes), slow[7].error) == (64 * 2**20, None)


@pytest.mark.anyio
@pytest.mark.parametrize("attached", [True, False])
async def test_what_a_stream_leaves_unread_is_bounded(h2c: Transport, attached: bool) -> None:
    async with Flood(16 * 2**20) as upstream:
        body, sink = body_of(await ask(h2c, upstream.url + "/slow")), Recorder()
        if attached:
            body.attach(sink)
            body.pause()
        await upstream.until(lambda: upstream.calls[0].room <= 0)
        await turns(50)
        assert upstream.sent_bytes[upstream.calls[0]] - len(sink.bytes) <= 2 * HOLD
        body.abort()
        await upstream.until(lambda: upstream.calls[0].reset == 8)


@pytest.mark.anyio
async def test_a_burst_of_8000_tokens_needs_no_waiting_for_a_reader_that_is_there(h2c: Transport) -> None:
    """The window grows while it is used up fast: at its end the whole burst may be under way."""
    event = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"token"}}]}\n\n'

    async def respond(call: Call) -> None:
        call.head()
        for _ in range(3):
            for _ in range(8000 // 100):
                await call.data(event * 100)
        call.end()

    async with Scripted(respond) as upstream:
        assert await read(await ask(h2c, upstream.url)) == event * 24_000
        granted = sum(delta for number, delta in upstream.links[0].updates if number == upstream.calls[0].number)
        assert HOLD + granted - 24_000 * len(event) >= 2 * HOLD


@pytest.mark.anyio
async def test_bytes_of_streams_that_were_left_do_not_use_up_the_connection(h2c: Transport) -> None:
    async with Flood(64 * 2**20) as upstream:
        for _ in range(2 * CONNECTION_BYTES // HOLD):
            body = body_of(await ask(h2c, upstream.url + "/slow"))
            call = upstream.calls[-1]
            await upstream.until(lambda call=call: call.room <= 0 or call.reset is not None)  # type: ignore[misc]
            body.abort()
        assert upstream.connections == 1
        assert len(await read(await ask(h2c, upstream.url + "/slow"))) == 64 * 2**20


@pytest.mark.anyio
async def test_padding_counts_and_is_not_delivered(h2c: Transport) -> None:
    padded = frame(0, 8, 1, b"\xff" + b"text" + bytes(255))
    async with Raw(lambda number: padded * 900) as upstream:  # 234 kB
        sink = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(sink)
        await upstream.until(lambda: sum(delta for number, delta in upstream.links[0].updates if number) >= HOLD // 2)
        upstream.links[0].raw(frame(0, 9, 1, b"\x02" + b"end" + bytes(2)))
        await sink.until_end()
        assert (sink.bytes, sink.error) == (b"text" * 900 + b"end", None)


@pytest.mark.anyio
async def test_a_paused_stream_that_is_sent_more_than_its_window_is_reset(h2c: Transport) -> None:
    async with Raw(lambda number: b"") as upstream:
        sink = Recorder()
        body = body_of(await ask(h2c, upstream.url))
        body.attach(sink)
        body.pause()
        upstream.links[0].raw(frame(0, 0, 1, bytes(16_384)) * 17)  # 272 KiB
        await upstream.until(lambda: upstream.calls[0].reset is not None)
        assert upstream.calls[0].reset == 3  # FLOW_CONTROL_ERROR
        body.resume()
        await sink.until_end()
        assert isinstance(sink.error, httpx.RemoteProtocolError)
        assert "window" in str(sink.error)


# The window itself.


def test_it_opens_again_only_by_what_was_taken_while_the_reader_is_slow() -> None:
    window = Window(1000, 8000, Reserve(10_000), 0.0)
    window.open -= 1000
    assert not window.taken(499)
    assert window.taken(1)
    assert window.grant(FAST_S) == 500
    assert (window.size, window.open) == (1000, 500)


def test_it_grows_while_it_is_used_up_fast_up_to_its_most_and_what_the_reserve_has() -> None:
    reserve = Reserve(5000)
    window = Window(1000, 8000, reserve, 0.0)
    sizes = []
    for turn in range(5):
        window.open -= window.size
        assert window.taken(window.size)
        window.grant(turn * FAST_S / 2)
        sizes.append(window.size)
        assert window.open == window.size
    assert sizes == [2000, 4000, 6000, 6000, 6000]
    assert reserve.left_bytes == 0
    window.close()
    assert reserve.left_bytes == 5000


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0, 3)), max_size=60))
def test_what_may_be_unread_is_never_more_than_the_size(steps: list[tuple[int, float]]) -> None:
    reserve = Reserve(3000)
    window, now, unread = Window(1000, 4000, reserve, 0.0), 0.0, 0
    for count, pause_s in steps:
        now += pause_s
        sent = min(count, window.open)
        window.open -= sent
        unread += sent
        taken, unread = unread // 2 + 1 if unread else 0, unread - (unread // 2 + 1 if unread else 0)
        if taken and window.taken(taken):
            window.grant(now)
        assert window.open + unread <= window.size <= 4000
    window.close()
    assert reserve.left_bytes == 3000


@pytest.mark.anyio
async def test_all_streams_of_a_connection_share_what_they_may_grow_by() -> None:
    async with Transport(proxies=Proxies({}), http2="true", hold_bytes=1024, window_bytes=2**40) as transport, Flood(8 * 2**20) as upstream:
        bodies = await asyncio.gather(*(ask(transport, upstream.url + "/slow") for _ in range(8)))
        assert sum([len(body) for body in await asyncio.gather(*map(read, bodies))]) == 64 * 2**20
        assert upstream.connections == 1
