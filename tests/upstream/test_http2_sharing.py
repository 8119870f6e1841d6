"""A connection that several requests share: leaving, limits, the peer's goodbyes and refusals, silence, and what is kept."""

from __future__ import annotations

import asyncio
import gc

import httpx
import pytest

from gateway.upstream.failures import NotProcessed, Unheard
from gateway.upstream.keeper import Origin
from gateway.upstream.proxies import Proxies
from gateway.upstream.transport import Transport
from support.http2 import Call, Http2Upstream

from .http2_servers import Holding, Raw, Scripted, frame
from .readers import Pieces, Recorder, ask, body_of, read, turns, until
from .servers import SAFETY_S

pytestmark = pytest.mark.anyio
CANCEL, REFUSED, INTERNAL = 8, 7, 2


def ok(call: Call) -> None:
    call.head()
    call.now(b"ok", end=True)


def silent(call: Call) -> None: ...


def refuse(call: Call) -> None:
    call.cut(REFUSED)


def origin(upstream: Http2Upstream) -> Origin:
    return "http", upstream.host, upstream.port


# Leaving.


async def test_leaving_resets_the_stream_and_the_connection_goes_on(h2c: Transport) -> None:
    async with Holding() as upstream:
        stays = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(stays)
        for turn in range(120):
            sink = Recorder()
            body = body_of(await ask(h2c, upstream.url))
            body.attach(sink)
            if turn % 2:
                await sink.until(5)
            body.abort()
            body.abort()
        await upstream.until(lambda: sum(call.reset == CANCEL for call in upstream.calls) == 120)
        upstream.go.set()
        await stays.until_end()
        assert (stays.bytes, stays.error, upstream.connections) == (b"firstlast", None, 1)


async def test_closing_a_response_that_is_iterated_resets_it(h2c: Transport) -> None:
    async with Holding() as upstream:
        response = await ask(h2c, upstream.url)
        await anext(aiter(body_of(response)))
        await response.aclose()
        await upstream.until(lambda: upstream.calls[0].reset == CANCEL)
        assert upstream.open_connections == 1


async def test_who_leaves_before_the_head_resets_the_stream(h2c: Transport) -> None:
    async with Scripted(silent) as upstream:
        asked = asyncio.ensure_future(ask(h2c, upstream.url))
        await upstream.asked()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await upstream.until(lambda: upstream.calls[0].reset == CANCEL)
        assert upstream.open_connections == 1


async def test_who_leaves_in_the_middle_of_an_upload_resets_the_stream(h2c: Transport) -> None:
    async with Http2Upstream() as upstream:
        asked = asyncio.ensure_future(ask(h2c, upstream.url + "/untaken", content=bytes(10 * 2**20)))
        await upstream.until(lambda: upstream.calls and upstream.calls[0].body)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await upstream.until(lambda: upstream.calls[0].reset == CANCEL)
        assert await read(await ask(h2c, upstream.url)) == b"ok"
        assert upstream.connections == 1


async def test_who_leaves_at_any_moment_leaks_nothing(h2c: Transport) -> None:
    async with Http2Upstream() as upstream:
        for moment in range(40):
            asked = asyncio.ensure_future(ask(h2c, upstream.url, content=bytes(moment % 2 * 200_000)))
            await turns(moment)
            asked.cancel()
            done, _ = await asyncio.wait({asked}, timeout=SAFETY_S)
            assert done
            if not asked.cancelled():
                assert await read(asked.result()) == b"ok"
        assert await read(await ask(h2c, upstream.url)) == b"ok"
        await until(lambda: h2c.pool.open_count <= 1)


# Limits.


async def test_no_connection_gets_more_streams_than_its_peer_allows(h2c: Transport) -> None:
    async with Holding(settings={3: 10}) as upstream:
        assert upstream.connections == 0
        first = await ask(h2c, upstream.url)  # by then the settings are known
        more = await asyncio.gather(*(ask(h2c, upstream.url) for _ in range(34)))
        assert [len(link.calls) for link in upstream.links] == [10, 10, 10, 5]
        upstream.go.set()
        assert {await read(response) for response in (first, *more)} == {b"firstlast"}
        assert await read(await ask(h2c, upstream.url)) == b"firstlast"
        assert upstream.connections == 4


async def test_a_burst_before_the_peers_settings_are_known_is_served_all_the_same(h2c: Transport) -> None:
    async with Holding(settings={3: 5}) as upstream:
        asked = [asyncio.ensure_future(ask(h2c, upstream.url)) for _ in range(23)]
        await upstream.until(lambda: sum(call.whole for call in upstream.calls) == 23)
        upstream.go.set()
        assert {await read(response) for response in await asyncio.gather(*asked)} == {b"firstlast"}


async def test_a_burst_at_the_beginning_waits_for_one_connection(h2c: Transport) -> None:
    async with Http2Upstream() as upstream:
        responses = await asyncio.gather(*(ask(h2c, upstream.url) for _ in range(250)))
        assert {await read(response) for response in responses} == {b"ok"}
        assert upstream.connections == 3  # of a hundred streams


async def test_when_the_one_who_connects_leaves_another_does_it() -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def resolve(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
        entered.set()
        await go.wait()
        return [(2, ("127.0.0.1", port))]

    async with Transport(proxies=Proxies({}), http2="true", resolve=resolve) as transport, Http2Upstream() as upstream:
        first = asyncio.ensure_future(ask(transport, upstream.url))
        await entered.wait()
        others = [asyncio.ensure_future(ask(transport, upstream.url)) for _ in range(5)]
        await turns()
        first.cancel()
        go.set()
        assert {await read(response) for response in await asyncio.gather(*others)} == {b"ok"}
        assert upstream.connections == 1


async def test_those_who_wait_for_a_connection_hear_why_it_failed() -> None:
    async def resolve(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
        await asyncio.sleep(0.01)
        raise OSError(None, "nobody knows it")

    async with Transport(proxies=Proxies({}), http2="true", resolve=resolve) as transport:
        failed = await asyncio.gather(*(ask(transport, f"http://lost.test/{n}") for n in range(4)), return_exceptions=True)
        assert all(isinstance(error, httpx.ConnectError) and "nobody knows it" in str(error) for error in failed)
        assert [error.request.url.path for error in failed] == ["/0", "/1", "/2", "/3"]  # type: ignore[union-attr]


async def test_those_who_wait_for_a_connection_have_their_own_timeout() -> None:
    async def resolve(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
        await asyncio.Event().wait()
        raise AssertionError

    async with Transport(proxies=Proxies({}), http2="true", resolve=resolve) as transport:
        patient = asyncio.ensure_future(ask(transport, "http://slow.test/"))
        await turns()
        with pytest.raises(httpx.ConnectTimeout, match=r"within 0\.05 s"):
            await ask(transport, "http://slow.test/", extensions={"timeout": {"connect": 0.05}})
        patient.cancel()
        await asyncio.wait({patient})


# Refusals and goodbyes.


async def test_a_refused_stream_is_sent_again_on_another_connection(h2c: Transport) -> None:
    async with Scripted(refuse, ok) as upstream:
        assert await read(await ask(h2c, upstream.url, content=b"again")) == b"ok"
        assert [call.body for call in upstream.calls] == [b"again", b"again"]
        assert upstream.calls[0].link is not upstream.calls[1].link


async def test_a_stream_refused_twice_is_the_callers_who_can_tell_that_it_was_not_processed(h2c: Transport) -> None:
    async with Scripted(refuse) as upstream:
        with pytest.raises(NotProcessed, match="REFUSED_STREAM") as raised:
            await ask(h2c, upstream.url)
        assert raised.value.request.url == upstream.url
        assert len(upstream.calls) == 2


async def test_a_body_that_cannot_be_replayed_is_not_sent_twice(h2c: Transport) -> None:
    async with Scripted(refuse) as upstream:
        with pytest.raises(NotProcessed):
            await ask(h2c, upstream.url, content=None, stream=Pieces([b"once"]))
        assert len(upstream.calls) == 1


@pytest.mark.parametrize("code", [INTERNAL, CANCEL, 11, 99])
async def test_a_stream_reset_before_its_head_may_have_been_processed(h2c: Transport, code: int) -> None:
    async with Raw(lambda number: frame(3, 0, number, code.to_bytes(4, "big")), head=False) as upstream:
        with pytest.raises(httpx.ReadError, match="reset the stream") as raised:
            await ask(h2c, upstream.url)
        assert not isinstance(raised.value, NotProcessed)
        assert len(upstream.calls) == 1


@pytest.mark.parametrize("code", [INTERNAL, REFUSED])
async def test_a_reset_in_mid_stream_ends_this_stream_alone_after_its_data(h2c: Transport, code: int) -> None:
    def cut(call: Call) -> None:
        call.head()
        call.now(b"two")
        call.cut(code)

    async with Scripted(silent, cut, ok) as upstream:
        other = asyncio.ensure_future(ask(h2c, upstream.url))
        await upstream.asked()
        sink = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(sink)
        await sink.until_end()
        assert sink.bytes == b"two"
        assert isinstance(sink.error, httpx.ReadError)
        assert not isinstance(sink.error, NotProcessed)
        assert await read(await ask(h2c, upstream.url)) == b"ok"
        ok(upstream.calls[0])
        assert await read(await other) == b"ok"
        assert upstream.connections == 1


async def test_after_a_goodbye_streams_go_on_and_new_ones_take_another_connection(h2c: Transport) -> None:
    async with Holding() as upstream:
        sink = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(sink)
        upstream.links[0].go_away(2**31 - 1)  # the first of two, as nginx and Go send them
        upstream.links[0].go_away(1)
        await until(lambda: h2c.sharing.take(origin(upstream)) is None)
        other = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(other)
        assert upstream.connections == 2
        upstream.go.set()
        await sink.until_end()
        await other.until_end()
        assert (sink.bytes, sink.error, other.bytes, other.error) == (b"firstlast", None, b"firstlast", None)
        await upstream.until(lambda: upstream.links[0].closed)
        assert not upstream.links[1].closed


async def test_streams_that_a_goodbye_leaves_out_are_sent_again(h2c: Transport) -> None:
    async with Scripted(silent, silent, ok) as upstream:
        asked = [asyncio.ensure_future(ask(h2c, upstream.url)) for _ in range(2)]
        await upstream.asked(2)
        upstream.links[0].go_away(1)
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED, timeout=SAFETY_S)
        assert [await read(task.result()) for task in done] == [b"ok"]
        ok(upstream.calls[0])
        assert {await read(response) for response in await asyncio.gather(*asked)} == {b"ok", b""}
        assert [len(link.calls) for link in upstream.links] == [2, 1]


async def test_an_idle_connection_that_says_goodbye_is_closed_at_once(h2c: Transport) -> None:
    async with Http2Upstream() as upstream:
        await read(await ask(h2c, upstream.url))
        upstream.links[0].go_away(1)
        await upstream.until(lambda: upstream.links[0].closed)
        assert await read(await ask(h2c, upstream.url)) == b"ok"


async def test_a_connection_that_was_dead_already_is_replaced_once_also_for_post(h2c: Transport) -> None:
    async with Scripted(ok, lambda call: call.link.transport.abort(), ok) as upstream:
        await read(await ask(h2c, upstream.url))
        assert await read(await ask(h2c, upstream.url, content=b"again")) == b"ok"
        assert upstream.connections == 2


async def test_a_connection_that_dies_at_its_first_request_is_not_replaced(h2c: Transport) -> None:
    def hang_up(call: Call) -> None:
        call.link.transport.abort()

    async with Scripted(hang_up) as upstream:
        with pytest.raises(httpx.ReadError) as raised:
            await asyncio.gather(ask(h2c, upstream.url))
        assert not isinstance(raised.value, NotProcessed)
        assert len(upstream.calls) <= 2


async def test_a_connection_that_dies_ends_all_its_streams(h2c: Transport) -> None:
    async with Holding() as upstream:
        sinks = [Recorder() for _ in range(3)]
        for sink in sinks:
            body_of(await ask(h2c, upstream.url)).attach(sink)
            await sink.until(5)
        upstream.links[0].transport.abort()
        for sink in sinks:
            await sink.until_end()
            assert isinstance(sink.error, httpx.ReadError)
            assert not isinstance(sink.error, Unheard)
            assert sink.bytes == b"first"
        assert len({id(sink.error) for sink in sinks}) == 3
        await until(lambda: h2c.pool.open_count == 0)


# Silence.


async def test_a_silent_peer_is_pinged_while_streams_are_open_and_its_answer_is_life() -> None:
    async with Transport(proxies=Proxies({}), http2="true", ping_after_s=0.02, ping_within_s=1.0) as transport, Holding() as upstream:
        sink = Recorder()
        body_of(await ask(transport, upstream.url)).attach(sink)
        await until(lambda: upstream.links[0].pings >= 2)
        upstream.go.set()
        await sink.until_end()
        assert (sink.bytes, sink.error) == (b"firstlast", None)
        await asyncio.sleep(0.05)
        pings = upstream.links[0].pings
        await asyncio.sleep(0.1)
        assert upstream.links[0].pings == pings  # idle: nobody waits for anything


async def test_a_peer_that_answers_no_ping_is_dead() -> None:
    async with Transport(proxies=Proxies({}), http2="true", ping_after_s=0.05, ping_within_s=0.05) as transport, Holding() as upstream:
        sink = Recorder()
        body_of(await ask(transport, upstream.url)).attach(sink)
        await sink.until(5)
        upstream.links[0].deaf = True
        await sink.until_end()
        assert isinstance(sink.error, httpx.ReadError)
        assert "no ping" in str(sink.error)
        await until(lambda: transport.pool.open_count == 0)


@pytest.mark.parametrize("dead", [True, False])
async def test_where_a_request_was_given_up_unheard_the_connection_is_asked_before_it_is_given_again(
    dead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.http2.DOUBT_S", 0.0)
    within_s, scripts = (0.05, (ok,)) if dead else (SAFETY_S, (ok, silent, ok))  # a dead one does not see its second call
    async with Transport(proxies=Proxies({}), http2="true", ping_within_s=within_s) as transport, Scripted(*scripts) as upstream:
        await read(await ask(transport, upstream.url))
        link = upstream.links[0]
        link.deaf = dead
        with pytest.raises(httpx.ReadTimeout):  # a request without a body: nothing need be said to it, not even of its window
            await ask(transport, upstream.url, "GET", extensions={"timeout": {"read": 0.02}})
        if dead:
            await read(await ask(transport, upstream.url))
            assert upstream.connections == 2
            await until(lambda: transport.pool.open_count == 1)
        else:
            await upstream.until(lambda: link.pings == 1)
            await turns()
            await until(lambda: transport.sharing.take(origin(upstream)) is not None)
            await read(await ask(transport, upstream.url))
            assert upstream.connections == 1


async def test_the_peers_pings_are_answered(h2c: Transport) -> None:
    async with Holding() as upstream:
        await ask(h2c, upstream.url)
        upstream.links[0].h2.ping(b"12345678")
        upstream.links[0].flush()
        before = upstream.links[0].acknowledged
        await upstream.until(lambda: upstream.links[0].acknowledged > before)


# What is kept.


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_an_expired_connection_is_not_used() -> None:
    clock = Clock()
    async with Transport(proxies=Proxies({}), http2="true", clock=clock, idle_expiry_s=60) as transport, Http2Upstream() as upstream:
        for pause_s, connections in ((0, 1), (59.9, 1), (60.1, 2)):
            clock.now += pause_s
            await read(await ask(transport, upstream.url))
            await until(lambda: not transport.sharing.take(origin(upstream)).busy)  # type: ignore[union-attr]
            assert upstream.connections == connections
        await upstream.until(lambda: upstream.links[0].closed)


async def test_expired_connections_are_closed_without_a_request_and_say_goodbye() -> None:
    async with Transport(proxies=Proxies({}), http2="true", idle_expiry_s=0.02) as transport, Http2Upstream() as upstream:
        await read(await ask(transport, upstream.url))
        await upstream.until(lambda: upstream.links[0].closed)
        assert upstream.links[0].gone == 0
        await until(lambda: transport.pool.open_count == 0)


async def test_no_more_are_kept_than_allowed() -> None:
    async with Transport(proxies=Proxies({}), http2="true", connections_idle=1) as transport, Holding(settings={3: 1}) as upstream:
        first = await ask(transport, upstream.url)
        more = [await ask(transport, upstream.url) for _ in range(3)]
        assert upstream.connections == 4
        upstream.go.set()
        assert {await read(response) for response in (first, *more)} == {b"firstlast"}
        await upstream.until(lambda: upstream.open_connections == 1)
        await until(lambda: transport.pool.open_count == 1)


async def test_closing_the_transport_ends_all(h2c: Transport) -> None:
    async with Holding() as upstream:
        sink = Recorder()
        body_of(await ask(h2c, upstream.url)).attach(sink)
        waiting = asyncio.ensure_future(ask(h2c, upstream.url + "/untaken", content=bytes(200_000)))
        await upstream.until(lambda: len(upstream.calls) == 2)
        await h2c.aclose()
        with pytest.raises(httpx.ReadError, match="closed"):
            await waiting
        assert isinstance(sink.error, httpx.ReadError)
        assert h2c.pool.open_count == 0
        with pytest.raises(httpx.ConnectError, match="closed"):
            await ask(h2c, upstream.url)


async def test_an_origin_that_speaks_http_1_only_fails_in_one_sentence(h2c: Transport) -> None:
    from .servers import Server

    async with Server(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") as server:
        with pytest.raises(httpx.TransportError):
            await ask(h2c, server.url)


async def test_exchanges_leave_nothing_for_the_garbage_collector(h2c: Transport) -> None:
    async with Http2Upstream() as upstream:
        await read(await ask(h2c, upstream.url))

        async def plain() -> None:
            body = body_of(await h2c.handle_async_request(httpx.Request("POST", upstream.url, content=b"{}")))
            assert [piece async for piece in body] == [b"ok"]

        await plain()
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(10):
                await plain()
            gc.collect()
            ours = [thing for thing in gc.garbage if type(thing).__module__.startswith(("gateway", "httpx"))]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert ours == []
