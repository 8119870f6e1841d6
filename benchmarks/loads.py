"""What is played: the body of one answer as (seconds, bytes), by the name of the model that is asked for.

    trickle/RATE/SECONDS      an event each 1/RATE s
    bursts/EVENTS/RATE/SECONDS  so many events in one segment, RATE times a second
    short                   the shortest stream: one event with text, and the end
    hold/SECONDS              one event, then nothing for so long: a stream that is open
    trace/NAME                a trace of tests/traces
    json                      no stream: a short JSON answer

Knows nothing of sockets. The first text carries the time at which it was sent (`sent_ns`), so that a client can tell its delay.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

TRACES: Final = Path(__file__).resolve().parent.parent / "tests" / "traces"
WHOLE: Final = (
    b'{"id":"chatcmpl-bench","object":"chat.completion","created":1790000000,"model":"json","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Yes."},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}'
)
SENT: Final = b'"system_fingerprint":"fp_sent_'  # followed by nanoseconds of the monotonic clock, in the first event with text
_WORDS: Final = (" the", " parser", " reads", " every", " byte", " of", " a", " stream", " and", " keeps", " its", " order", ",", ".")
_RARE: Final = ("\n", " Größe", "流", '"', "\\", " 👍", " <b>")
_RARE_SHARE: Final = 0.05
_TAIL_S: Final = 0.05  # between the last text and the end


def chunk(delta: dict[str, object], finish: str | None = None, fingerprint: str = "fp_bench") -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1790000000, "model": "bench-1"}
    data = {**head, "system_fingerprint": fingerprint, "choices": [choice]}
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


OPENING: Final = chunk({"role": "assistant", "content": ""})
CLOSING: Final = chunk({}, "stop") + b"data: [DONE]\n\n"


def first_text(sent_ns: int) -> bytes:
    return chunk({"content": " now"}, fingerprint=f"fp_sent_{sent_ns}")


@lru_cache(maxsize=64)
def texts(count: int, seed: int = 0) -> tuple[bytes, ...]:
    """Events of about a token each; one in twenty holds what a parser must look at twice."""
    rng = random.Random(seed)  # noqa: S311  # the same text in each round
    words = (rng.choice(_RARE if rng.random() < _RARE_SHARE else _WORDS) for _ in range(count))
    return tuple(chunk({"content": word}) for word in words)


@lru_cache(maxsize=64)
def script(model: str) -> tuple[tuple[float, bytes], ...]:
    """All that follows the first text, in order; the last part ends the answer."""
    name, *numbers = model.split("/")
    steps = tuple(_traced(numbers[0]) if name == "trace" else _made(name, [float(number) for number in numbers]))
    return (*steps, (steps[-1][0] + _TAIL_S if steps else _TAIL_S, CLOSING))


def _made(name: str, numbers: list[float]) -> Iterator[tuple[float, bytes]]:
    if name == "trickle":
        rate, seconds = numbers
        stock = texts(512)
        yield from ((i / rate, stock[i % len(stock)]) for i in range(1, int(rate * seconds) + 1))
    elif name == "bursts":
        events, rate, seconds = numbers
        stock = texts(int(events) * 8)
        segments = [b"".join(stock[at : at + int(events)]) for at in range(0, len(stock), int(events))]
        yield from ((i / rate, segments[i % len(segments)]) for i in range(1, int(rate * seconds) + 1))
    elif name == "short":
        return
    elif name == "hold":
        yield numbers[0], texts(1)[0]


def _traced(name: str) -> Iterator[tuple[float, bytes]]:
    trace = json.loads((TRACES / f"{name}.json").read_text())
    for burst in trace["bursts"]:
        pack = burst.get("pack", 1) or burst["tokens"]
        member = {"reasoning": "reasoning_content"}.get(burst["kind"], "content")
        stock = texts(burst["tokens"], len(burst["kind"]))
        events = [event.replace(b'"content"', b'"%b"' % member.encode(), 1) for event in stock[:: max(1, int(pack))]]
        spread = burst.get("spread_ms", 0) / 1e3
        if spread:
            yield from ((burst["at_ms"] / 1e3 + spread * i / len(events), event) for i, event in enumerate(events))
        else:
            yield burst["at_ms"] / 1e3, b"".join(events)


def kind_of(data: bytes) -> str:
    """Of the text in a part of a script, as the gateway's promise calls it."""
    return "reasoning" if b'"reasoning_content"' in data else "content"


def events_in(model: str) -> int:
    """Events of one answer that carry text or end it."""
    return 2 + sum(data.count(b"data: ") for _, data in script(model))
