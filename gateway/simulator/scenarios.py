"""What the embedded upstream can play, by model name: a table of data.

Owns the shapes in time. Knows nothing of text, dialects or bytes.
Times are in seconds from the arrival of the request; a request's speed divides them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gateway.simulator.text import Part
from gateway.traces.format import Trace

Ending = Literal["finish", "length", "nothing", "reset", "error", "hang", "hang-before-headers"]


@dataclass(frozen=True, slots=True)
class Burst:
    """at_s: when its first token leaves. spread_s: its deltas leave evenly over this time, each in a write of its own; 0: all
    in one write. pack: tokens to a delta; 0: all of them in one."""

    at_s: float
    tokens: int
    kind: Part = "content"
    spread_s: float = 0.0
    pack: int = 1


@dataclass(frozen=True, slots=True)
class Rejection:
    """An error in place of a stream. Types and codes as OpenAI and Anthropic name them."""

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    anthropic_type: str = "invalid_request_error"
    anthropic_status: int = 0  # where it differs
    retry_after_s: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """ending: how it ends after the last burst: as it should; cut at the token limit; the body ends without finish or terminal
    event; the connection is reset; an error event; silence without end. `ending_s` later than the last token."""

    name: str
    about: str
    bursts: tuple[Burst, ...] = ()
    ending: Ending = "finish"
    ending_s: float = 0.0
    one_write: bool = False  # the whole body
    think_tags: bool = False  # reasoning comes inside <think> in the content
    reasoning_field: str = "reasoning_content"  # of chat chunks
    echo: bool = False  # says what the user said last, at `ECHO_RATE`
    rejection: Rejection | None = None

    @property
    def last_s(self) -> float:
        return max((burst.at_s + burst.spread_s for burst in self.bursts), default=0.0)


STEADY_RATE: Final = 187.0  # tokens/s: a fast hosted model
ECHO_RATE: Final = 200.0
RESET_AFTER_S: Final = 0.05  # at any speed: a reset overtakes what the kernel has not yet handed over


def steady(rate: float, tokens: int, kind: Part = "content", at_s: float = 0.0) -> tuple[Burst, ...]:
    """`tokens` evenly spread, each in a write of its own."""
    return (Burst(at_s, tokens, kind, spread_s=tokens / rate),)


def clusters(
    seed: str,
    at_s: float,
    number: int,
    size: tuple[int, int],
    gap_s: tuple[float, float],
    kind: Part = "content",
    pack: int = 1,
) -> tuple[Burst, ...]:
    """Bursts of one write each, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - a made-up shape, not a secret
    out = []
    for _ in range(number):
        out.append(Burst(round(at_s, 3), chance.randint(*size), kind, pack=pack))
        at_s += chance.uniform(*gap_s)
    return tuple(out)


_SMALL: Final = (40, 120)
_LARGE: Final = (60, 240)

_TABLE: Final = (
    Scenario(
        "smooth-then-clusters",
        "smooth for 800 ms, then clusters of 40-120 tokens, each in one write: reasoning, then the answer",
        steady(STEADY_RATE, 150, "reasoning", 0.25)
        + clusters("stc-r", 1.5, 10, _SMALL, (0.4, 0.9), "reasoning")
        + clusters("stc-c", 8.3, 7, _SMALL, (0.4, 0.9)),
    ),
    Scenario(
        "clusters",
        "clusters of 60-240 tokens every 1-2 s: reasoning, then the answer",
        clusters("c-r", 0.3, 6, _LARGE, (1.0, 2.0), "reasoning") + clusters("c-c", 7.8, 5, _LARGE, (1.0, 2.0)),
    ),
    Scenario(
        "planner",
        "7.4 s of silence, 1,847 reasoning tokens at once, then 12 visible tokens a second",
        (Burst(7.4, 1847, "reasoning"), *steady(12, 36, at_s=8.0)),
    ),
    Scenario("held-to-the-end", "a buffering proxy holds 600 tokens back and lets all go at 5 s", (Burst(5.0, 600),)),
    Scenario(
        "large-deltas",
        "deltas of about 100 tokens each, two or three a second",
        clusters("ld", 0.4, 16, (80, 120), (0.33, 0.7), pack=0),
    ),
    Scenario("steady", "187 tokens a second, one event each: nothing to smooth", steady(STEADY_RATE, 1000, at_s=0.1)),
    Scenario(
        "tool-call",
        "reasoning in clusters, then a call with a file's worth of arguments in bursts; a call's result is answered in text",
        clusters("tc-r", 0.2, 4, _SMALL, (0.4, 0.9), "reasoning") + clusters("tc-t", 3.2, 8, (60, 160), (0.4, 0.8), "tool"),
    ),
    Scenario(
        "think-tags",
        "reasoning inside <think> in the content, the tags cut between deltas",
        clusters("tt-r", 0.2, 4, _SMALL, (0.4, 0.9), "reasoning") + clusters("tt-c", 3.2, 4, _SMALL, (0.4, 0.9)),
        think_tags=True,
    ),
    Scenario(
        "reasoning-field",
        "chat reasoning is named `reasoning`, as vLLM and OpenRouter do",
        clusters("rf-r", 0.2, 3, _SMALL, (0.4, 0.9), "reasoning") + clusters("rf-c", 2.4, 3, _SMALL, (0.4, 0.9)),
        reasoning_field="reasoning",
    ),
    Scenario("refusal", "the model declines: refusal deltas in place of content", steady(50, 60, "refusal", 0.3)),
    Scenario("echo", "says the last user message again, 200 tokens a second", echo=True),
    Scenario("instant", "a whole short answer in one write", (Burst(0.05, 24),), one_write=True),
    Scenario("out-of-tokens", "the answer ends at the token limit", steady(STEADY_RATE, 200, at_s=0.1), ending="length"),
    Scenario(
        "dies-half-way",
        "the connection is reset in mid-stream",
        clusters("d-r", 0.2, 3, _SMALL, (0.4, 0.9), "reasoning") + clusters("d-c", 2.5, 2, _SMALL, (0.4, 0.9)),
        ending="reset",
    ),
    Scenario("no-finish", "the body ends cleanly, without finish or terminal event", steady(100, 100, at_s=0.1), ending="nothing"),
    Scenario("error-in-stream", "an error event in mid-stream", steady(100, 100, at_s=0.1), ending="error", ending_s=0.2),
    Scenario("hangs", "headers and the opening event, then nothing", ending="hang"),
    Scenario("hangs-before-headers", "the request is taken, then nothing", ending="hang-before-headers"),
    Scenario(
        "rate-limited",
        "429 with Retry-After: 1",
        rejection=Rejection(
            429,
            "Rate limit reached for rate-limited on requests per min: Limit 3, Used 3, Requested 1. Please try again in 1s.",
            type="requests",
            code="rate_limit_exceeded",
            anthropic_type="rate_limit_error",
            retry_after_s=1,
        ),
    ),
    Scenario(
        "overloaded",
        "503, or 529 for Messages",
        rejection=Rejection(
            503,
            "The engine is currently overloaded, please try again later",
            type="server_error",
            code="overloaded",
            anthropic_type="overloaded_error",
            anthropic_status=529,
        ),
    ),
    Scenario("pauses", "half an answer, 20 s of silence, the other half", steady(50, 30, at_s=0.1) + steady(50, 30, at_s=20.7)),
    Scenario("silent", "20 s of silence, then text; `silent-N` for N s", (Burst(20.0, 1), *steady(50, 59, at_s=20.02))),
)
_PARTS: Final[dict[str, Part]] = {"content": "content", "reasoning": "reasoning", "tool": "tool"}
TABLE: Final[dict[str, Scenario]] = {scenario.name: scenario for scenario in _TABLE}
_SILENT: Final = re.compile(r"silent-([1-9][0-9]{0,4})")  # up to a day


def find(model: str) -> Scenario | None:
    """The scenario of a model name, or None."""
    if match := _SILENT.fullmatch(model):
        silence_s = float(match[1])
        shift_s = silence_s - TABLE["silent"].bursts[0].at_s
        bursts = tuple(replace(burst, at_s=burst.at_s + shift_s) for burst in TABLE["silent"].bursts)
        return replace(TABLE["silent"], name=model, about=f"{silence_s:.0f} s of silence, then text", bursts=bursts)
    return TABLE.get(model)


def learn(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Recorded streams as scenarios of their own names, for this process; a number is added to a name that is taken. Their names."""
    names = []
    for trace in traces:
        name, number = trace.name, 2
        while name in TABLE:
            name, number = f"{trace.name}-{number}", number + 1
        bursts = tuple(
            Burst(burst.at_ms / 1e3, burst.tokens, _PARTS[burst.kind], burst.spread_ms / 1e3, burst.pack) for burst in trace.bursts
        )
        TABLE[name] = Scenario(name, trace.about or "a recorded stream", bursts, ending_s=trace.done_ms / 1e3)
        names.append(name)
    return tuple(names)


def unknown(model: str) -> Rejection:
    return Rejection(
        404,
        f"The model `{model[:64]}` does not exist. Known are: {', '.join(TABLE)}, silent-N.",
        code="model_not_found",
        param="model",
        anthropic_type="not_found_error",
    )
