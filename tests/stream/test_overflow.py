"""`overflow: drop_oldest`: what a live viewer that reads too slowly loses, and how it is told."""

from __future__ import annotations

from gateway.dialects import Chat
from gateway.pacing.pacer import Pacer
from gateway.settings import Clocks, Pacing
from gateway.stream import Phase, Stream

HEAD = b'{"id":"a","object":"chat.completion.chunk","choices":[{"index":0,"delta":'


def event(delta: bytes, finish: bytes = b"null") -> bytes:
    return b"data: " + HEAD + delta + b',"finish_reason":' + finish + b"}]}\n\n"


def stream_that_holds(words: int) -> Stream:
    stream = Stream(0.0, Chat(), Pacer(Pacing()), Clocks(), heartbeat_every=15, heartbeat_style="comment", event_bytes=2**20)
    stream.receive(0.0, event(b'{"role":"assistant"}') + b"".join(event(b'{"content":"w%04d "}' % n) for n in range(words)))
    call = b'{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}'
    stream.receive(0.0, event(call) + event(b"{}", b'"tool_calls"') + b"data: [DONE]\n\n")
    return stream


def everything(stream: Stream) -> bytes:
    out, now = b"", 0.0
    while stream.phase is not Phase.ENDED:
        now += 0.02
        out += stream.due(now)
    return out


def test_the_oldest_text_goes_and_the_stream_says_how_much() -> None:
    stream = stream_that_holds(1000)
    stream.shed(0.0, 20_000)
    out = everything(stream)
    assert b"w0000 " not in out
    assert b"w0999 " in out
    dropped = 1000 - out.count(b'"content":"w')
    assert dropped > 0
    assert b": decluster dropped about %d tokens" % round(stream.shed_tokens) in out
    assert out.index(b": decluster dropped") < out.index(b'"content":"w')


def test_calls_finish_reasons_and_the_closing_line_stay() -> None:
    stream = stream_that_holds(1000)
    stream.shed(0.0, 0)
    out = everything(stream)
    assert b'"arguments":"{}"' in out
    assert out.count(b'"finish_reason":"tool_calls"') == 1
    assert out.endswith(b"data: [DONE]\n\n")


def test_nothing_goes_while_the_bound_holds() -> None:
    stream = stream_that_holds(10)
    held = stream.held_bytes
    stream.shed(0.0, held)
    assert stream.shed_tokens == 0
    assert everything(stream).count(b'"content":"w') == 10
