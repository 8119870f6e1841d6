"""The recorder and its followers without sockets: same turn, bounds, grace."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from gateway.dialects import Chat
from gateway.errors import Failure
from gateway.journal.memory import RECORDING_BYTES, Memory
from gateway.journal.places import AfterEvent
from gateway.journal.recorder import ABANDONED, Bounds, Recorder
from gateway.journal.recording import ENTRY_BYTES, Recording
from gateway.relay.follower import Follower
from gateway.settings import Clocks
from support.chunks import chunk
from support.plays import sse

pytestmark = pytest.mark.anyio
HEAD = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
END = {"type": "http.response.body", "body": b"", "more_body": False}


def frame(*texts: str) -> dict[str, Any]:
    return {"type": "http.response.body", "body": sse(map(chunk, texts)), "more_body": True}


class Client:
    """An ASGI `send` that notes what it gets; with `stalls` set it takes one message more and then waits."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.stalls = False
        self._go = asyncio.Event()

    async def send(self, message: Any) -> None:
        self.messages.append(message)
        if self.stalls:
            await self._go.wait()

    def read_on(self) -> None:
        self.stalls = False
        self._go.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


class Bench:
    def __init__(self, stream_bytes: int = 10_000, behind_bytes: int = 1000, total_bytes: int = 100_000, grace_s: float = 1000.0) -> None:
        self.loop = asyncio.get_running_loop()
        self.memory = Memory(self.loop, bound_bytes=total_bytes, hold_s=1000.0)
        self.bounds = Bounds(grace_s, stream_bytes, behind_bytes, 1000)
        self.ended: list[Failure] = []

    def recorder(self, name: str = "a") -> Recorder:
        recording = Recording(name, "f", Chat)
        recorder = Recorder(self.loop, recording, self.memory, self.bounds)
        recorder.fail = self.ended.append
        self.memory.add(recording)
        return recorder

    def follow(self, recorder: Recorder, after: int = 0) -> tuple[Client, Follower, asyncio.Task[str]]:
        client = Client()
        follower = Follower(
            self.loop,
            recorder.recording,
            AfterEvent(after) if after else None,
            client.send,
            fresh=Chat,
            clocks=Clocks(),
            heartbeat_every=1000.0,
            heartbeat_style="comment",
            request_id=b"req",
        )
        return client, follower, self.loop.create_task(follower.run())


def step(coroutine: Any) -> bool:
    """Whether it ends without waiting; else it is left as it is."""
    try:
        coroutine.send(None)
    except StopIteration:
        return True
    return False


async def turns(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0)


async def test_what_comes_is_with_every_follower_before_the_recorder_returns() -> None:
    bench = Bench()
    recorder = bench.recorder()
    clients = [bench.follow(recorder) for _ in range(3)]
    await turns(lambda: len(recorder.recording.followers) == 3)
    assert step(recorder.send(HEAD))
    assert step(recorder.send(frame("a", "b")))
    for client, _, _ in clients:
        assert [message["type"] for message in client.messages] == ["http.response.start", "http.response.body"]
        assert client.body == b"".join(b"id: %d\n%b" % (number, sse([chunk(text)])) for number, text in ((1, "a"), (2, "b")))
    assert step(recorder.send(END))
    assert {task.result() for _, _, task in clients if await task} == {"whole"}


async def test_a_follower_that_comes_late_gets_what_was_and_then_what_comes() -> None:
    bench = Bench()
    recorder = bench.recorder()
    step(recorder.send(HEAD))
    for number in range(1000):
        step(recorder.send(frame(str(number))))
        recorder.recording.trim(0, 0)
    client, _, task = bench.follow(recorder, after=990)
    await turns(lambda: client.body.count(b"id: ") == 10)
    step(recorder.send(frame("new")))
    step(recorder.send(END))
    assert await task == "whole"
    assert client.body.count(b"id: ") == 11
    assert client.body.startswith(b"id: 991\n")


async def test_the_recorder_waits_for_a_follower_that_is_too_far_behind_and_goes_on_when_it_has_read() -> None:
    bench = Bench(behind_bytes=2000)
    recorder = bench.recorder()
    client, _, task = bench.follow(recorder)
    quick, _, _ = bench.follow(recorder)
    await turns(lambda: len(recorder.recording.followers) == 2)
    client.stalls = True
    sends = [recorder.send(HEAD), *(recorder.send(frame("x" * 100)) for _ in range(20))]
    waits = next(index for index, send in enumerate(sends) if not step(send))
    assert recorder.recording.behind_bytes <= 2000 + 500
    client.read_on()
    await turns(lambda: recorder.recording.behind_bytes == 0)
    for send in sends[waits + 1 :]:
        assert step(send)
    step(recorder.send(END))
    await task
    assert client.body == quick.body
    sends[waits].close()


async def test_a_slow_follower_that_leaves_holds_nobody_up() -> None:
    bench = Bench(behind_bytes=500)
    recorder = bench.recorder()
    client, follower, task = bench.follow(recorder)
    bench.follow(recorder)
    await turns(lambda: len(recorder.recording.followers) == 2)
    client.stalls = True
    step(recorder.send(HEAD))
    waiting = asyncio.ensure_future(recorder.send(frame(*["x" * 100] * 9)))
    await asyncio.sleep(0)
    assert not waiting.done()
    follower.leave()
    await waiting
    assert await task == "client_gone"
    client.read_on()


async def test_with_nobody_there_a_full_recording_makes_the_upstream_wait_and_loses_nothing() -> None:
    bench = Bench(stream_bytes=3000)
    recorder = bench.recorder()
    client, follower, _ = bench.follow(recorder)
    await turns(lambda: recorder.recording.followers)
    step(recorder.send(HEAD))
    step(recorder.send(frame("first")))
    follower.leave()
    waiting = None
    sent = 0
    while waiting is None:
        send = recorder.send(frame(f"text {sent} " + "x" * 100))
        sent += 1
        if not step(send):
            waiting = send
    assert recorder.recording.held_bytes < 3000 + 500
    late, _, task = bench.follow(recorder, after=1)
    await turns(lambda: late.body.count(b"id: ") == sent)
    assert step(recorder.send(END))
    assert await task == "whole"
    waiting.close()
    assert client.body.count(b"id: ") == 1


async def test_of_a_long_stream_whose_client_is_there_the_oldest_goes_and_is_told_to_be_gone() -> None:
    bench = Bench(stream_bytes=5000)
    recorder = bench.recorder()
    client, _, _ = bench.follow(recorder)
    await turns(lambda: recorder.recording.followers)
    step(recorder.send(HEAD))
    for _ in range(100):
        assert step(recorder.send(frame("x" * 100)))
    assert recorder.recording.held_bytes <= 5000
    assert client.body.count(b"id: ") == 100
    late, _, task = bench.follow(recorder, after=3)
    assert await task == "stream_expired"
    assert late.messages[0]["status"] == 410
    assert bench.memory.bytes == recorder.recording.held_bytes + RECORDING_BYTES


async def test_all_recordings_together_keep_to_their_bound_the_oldest_ended_first() -> None:
    bench = Bench(total_bytes=40_000)
    recorders = []
    for number in range(30):
        recorder = bench.recorder(str(number))
        recorders.append(recorder)
        step(recorder.send(HEAD))
        step(recorder.send(frame("x" * 2000)))
        step(recorder.send(END))
        assert bench.memory.bytes <= 40_000
    assert bench.memory.get("0") is None
    assert bench.memory.is_gone("0")
    assert bench.memory.get("29") is recorders[29].recording


async def test_of_running_recordings_only_what_clients_have_had_makes_room() -> None:
    bench = Bench(total_bytes=40_000, stream_bytes=40_000)
    recorders = [bench.recorder(str(number)) for number in range(4)]
    clients = [bench.follow(recorder)[0] for recorder in recorders]
    await turns(lambda: all(recorder.recording.followers for recorder in recorders))
    for recorder in recorders:
        step(recorder.send(HEAD))
    for _ in range(30):
        for recorder in recorders:
            assert step(recorder.send(frame("x" * 500)))
            assert bench.memory.bytes <= 40_000 + 1000
    assert [client.body.count(b"id: ") for client in clients] == [30] * 4


async def test_streams_that_nobody_follows_wait_where_all_memory_is_taken() -> None:
    bench = Bench(total_bytes=20_000, stream_bytes=20_000)
    recorders = [bench.recorder(str(number)) for number in range(4)]
    waiting = []
    for recorder in recorders:
        step(recorder.send(HEAD))
    for _ in range(30):
        for recorder in recorders:
            if recorder not in [each for each, _ in waiting]:
                send = recorder.send(frame("x" * 500))
                if not step(send):
                    waiting.append((recorder, send))
    assert len(waiting) == 4
    assert bench.memory.bytes < 20_000 + 4 * 1000
    for _, send in waiting:
        send.close()


async def test_after_the_grace_the_answer_is_given_up_and_told_to_be() -> None:
    bench = Bench(grace_s=0.0)
    recorder = bench.recorder()
    _, follower, _ = bench.follow(recorder)
    await turns(lambda: recorder.recording.followers)
    follower.leave()
    await turns(lambda: bench.ended)
    assert bench.ended == [ABANDONED]


async def test_a_client_that_comes_back_within_the_grace_ends_it() -> None:
    bench = Bench()
    timers: list[asyncio.TimerHandle] = []
    call_later = bench.loop.call_later

    class Noting:
        create_future = bench.loop.create_future
        create_task = bench.loop.create_task

        @staticmethod
        def call_later(delay_s: float, callback: Any) -> asyncio.TimerHandle:
            timers.append(call_later(delay_s, callback))
            return timers[-1]

    recorder = bench.recorder()
    recorder._loop = Noting()  # type: ignore[assignment]
    _, follower, _ = bench.follow(recorder)
    await turns(lambda: recorder.recording.followers)
    follower.leave()
    assert [timer.cancelled() for timer in timers] == [False]
    bench.follow(recorder)
    await turns(lambda: recorder.recording.followers)
    assert [timer.cancelled() for timer in timers] == [True]


async def test_an_answer_that_ends_without_its_last_message_ends_with_an_error() -> None:
    bench = Bench()
    recorder = bench.recorder()
    client, _, task = bench.follow(recorder)
    await turns(lambda: recorder.recording.followers)
    step(recorder.send(HEAD))
    step(recorder.send(frame("a")))
    recorder.break_off(Failure("internal", "It failed."))
    assert await task == "whole"
    assert client.body.endswith(b"}\n\n")
    assert b'id: 2\ndata: {"error":{"message":"It failed."' in client.body


async def test_a_refusal_is_passed_to_who_waits_and_not_kept() -> None:
    bench = Bench()
    recorder = bench.recorder()
    client, _, task = bench.follow(recorder)
    await turns(lambda: recorder.recording.followers)
    fields = [(b"content-type", b"application/json"), (b"retry-after", b"3")]
    step(recorder.send({"type": "http.response.start", "status": 429, "headers": fields}))
    step(recorder.send({"type": "http.response.body", "body": b'{"error":', "more_body": True}))
    step(recorder.send({"type": "http.response.body", "body": b"{}}", "more_body": False}))
    assert await task == "upstream_error"
    assert client.messages[0]["status"] == 429
    assert (b"retry-after", b"3") in client.messages[0]["headers"]
    assert client.body == b'{"error":{}}'
    assert bench.memory.get("a") is None


async def test_what_is_held_is_counted_with_what_holding_it_takes() -> None:
    bench = Bench()
    recorder = bench.recorder()
    step(recorder.send(HEAD))
    step(recorder.send(frame("a", "b")))
    entries = recorder.recording.entries(1, 10)
    assert recorder.recording.held_bytes == sum(map(len, entries)) + 2 * ENTRY_BYTES
    recorder.finish()
    bench.memory.drop(recorder.recording)
    assert bench.memory.bytes == 0
    bench.memory.close()


async def test_a_recording_that_is_held_holds_nothing_of_the_request_that_made_it() -> None:
    class Exchange:
        def give_up(self, failure: Failure) -> None: ...

    bench = Bench()
    recorder = bench.recorder()
    exchange = Exchange()
    gone = weakref.ref(exchange)
    recorder.fail = exchange.give_up
    kept = weakref.ref(recorder)
    step(recorder.send(HEAD))
    step(recorder.send(frame("a")))
    step(recorder.send(END))
    recording = recorder.recording
    del exchange
    assert gone() is None
    del recorder
    assert kept() is None
    assert bench.memory.get("a") is recording
    bench.memory.close()
