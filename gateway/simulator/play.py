"""A scenario and a request become a plan, and a plan becomes writes: so many bytes at such a time.

Owns which token is in which delta, and which delta in which write. Knows no clock and no socket; a dialect's shapes are its
renderer's. Invariant: one burst is one write, unless it is spread, and then each of its deltas is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Final, Literal

from gateway.simulator import text, tools
from gateway.simulator.ask import Ask, invalid
from gateway.simulator.encode import Json
from gateway.simulator.scenarios import ECHO_RATE, Burst, Scenario, steady
from gateway.simulator.text import PARTS, Part

Finish = Literal["stop", "length", "tool", "refusal"]

_THINK: Final = (("<", "think", ">", "\n"), ("\n", "</", "think", ">", "\n\n"))


_ECHO_LIMIT: Final = 200_000  # characters: some minutes at the echo's rate, and 50 MB while they are planned


@dataclass(frozen=True, slots=True)
class Delta:
    part: Part
    tokens: tuple[str, ...]
    choice: int = 0

    @property
    def text(self) -> str:
        return "".join(self.tokens)


@dataclass(frozen=True, slots=True)
class Step:
    """What one write holds. at_s: seconds from the request's arrival at speed 1."""

    at_s: float
    deltas: tuple[Delta, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    scenario: Scenario
    steps: tuple[Step, ...]
    finish: Finish

    @property
    def ends_at_s(self) -> float:
        return (self.steps[-1].at_s if self.steps else 0.0) + self.scenario.ending_s

    def tokens(self, part: Part, choice: int = 0) -> list[str]:
        return [t for step in self.steps for delta in step.deltas if (delta.part, delta.choice) == (part, choice) for t in delta.tokens]


class Renderer(ABC):
    """One answer in one dialect: its events in order, and from the same parts the whole answer of a request without stream."""

    flat: bool = False  # the dialect knows text only: reasoning and calls come as tags in it

    def __init__(self, ask: Ask, scenario: Scenario) -> None:
        self.ask = ask
        self.scenario = scenario
        self.counts: dict[Part, int] = dict.fromkeys(PARTS, 0)

    def count(self, delta: Delta) -> None:
        self.counts[delta.part] += len(delta.tokens)

    @property
    def tokens(self) -> int:
        return sum(self.counts.values())

    @abstractmethod
    def opening(self) -> bytes: ...

    @abstractmethod
    def delta(self, delta: Delta) -> bytes: ...

    @abstractmethod
    def closing(self, finish: Finish) -> bytes: ...

    @abstractmethod
    def failure(self) -> bytes:
        """An error in the stream."""

    @abstractmethod
    def answer(self) -> Json:
        """The whole answer; after `closing`."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """All of a request that a plan depends on."""

    model: str
    seed: str
    said: str  # to be repeated
    answers_tool: bool
    tool: tools.Tool
    choices: int
    flat: bool


def plan(scenario: Scenario, ask: Ask, *, flat: bool = False) -> Plan:
    """Every delta of an answer with its time. Raises Rejected where there would be too many."""
    said = ask.last_user if scenario.echo else ""
    if len(said) > _ECHO_LIMIT:
        raise invalid(f"echo repeats at most {_ECHO_LIMIT:,} characters")
    wish = _Wish(ask.model, ask.seed, said, ask.answers_tool, ask.tool, ask.choices, flat)
    return _plan(scenario, wish) if said or ask.choices > 1 else _plan_once(scenario, wish)


def _plan(scenario: Scenario, wish: _Wish) -> Plan:
    bursts = scenario.bursts
    if wish.answers_tool:  # else an agent would call for ever
        bursts = tuple(replace(burst, kind="content") if burst.kind == "tool" else burst for burst in bursts)
    if scenario.echo:
        number = len(text.tokens_of(wish.said))
        bursts = steady(ECHO_RATE, number) if number else ()
    choices = [_tokens_of_bursts(scenario, bursts, wish, choice) for choice in range(wish.choices)]
    steps: list[Step] = []
    for position, burst in enumerate(bursts):
        tagged = wish.flat or (scenario.think_tags and burst.kind == "reasoning")
        packs = [list(_packs(tokens[position], burst.pack)) for tokens in choices]
        number = max(map(len, packs))
        deltas = [
            tuple(Delta("content" if tagged else burst.kind, pack[i], choice) for choice, pack in enumerate(packs) if i < len(pack))
            for i in range(number)
        ]
        if burst.spread_s:
            steps += [Step(burst.at_s + burst.spread_s * i / number, group) for i, group in enumerate(deltas)]
        elif deltas:
            steps.append(Step(burst.at_s, tuple(delta for group in deltas for delta in group)))
    return Plan(scenario, tuple(steps), _finish(scenario, steps))


# A hundred streams of one scenario that start together would else be planned for half a second, and be late. A plan is 1 MB.
_plan_once: Final = lru_cache(maxsize=32)(_plan)


def writes(plan: Plan, renderer: Renderer) -> Iterator[tuple[float, bytes]]:
    """The body of a stream as (seconds from the request's arrival, bytes of one write)."""
    if plan.scenario.one_write:
        at_s = plan.steps[-1].at_s
        yield at_s, renderer.opening() + b"".join(_steps(plan, renderer)) + renderer.closing(plan.finish)
        return
    yield 0.0, renderer.opening()
    for step, data in zip(plan.steps, _steps(plan, renderer), strict=True):
        yield step.at_s, data
    if plan.scenario.ending in ("finish", "length"):
        yield plan.ends_at_s, renderer.closing(plan.finish)
    elif plan.scenario.ending == "error":
        yield plan.ends_at_s, renderer.failure()


def whole(plan: Plan, renderer: Renderer) -> Json:
    """The answer of a request without stream."""
    renderer.opening()
    for _ in _steps(plan, renderer):
        pass
    renderer.closing(plan.finish)
    return renderer.answer()


def _steps(plan: Plan, renderer: Renderer) -> Iterator[bytes]:
    for step in plan.steps:
        yield b"".join([renderer.delta(delta) for delta in step.deltas])


def _finish(scenario: Scenario, steps: list[Step]) -> Finish:
    parts = {delta.part for step in steps for delta in step.deltas}
    if scenario.ending == "length":
        return "length"
    return "tool" if "tool" in parts else "refusal" if "refusal" in parts else "stop"


def _packs(tokens: list[str], size: int) -> Iterator[tuple[str, ...]]:
    rest = iter(tokens)
    while pack := tuple(islice(rest, size or None)):
        yield pack


def _tokens_of_bursts(scenario: Scenario, bursts: tuple[Burst, ...], wish: _Wish, choice: int) -> list[list[str]]:
    """For each burst its tokens; where reasoning or calls are tags in the text, with the tags."""
    seed = f"{wish.seed}.{choice}" if choice else wish.seed
    out: list[list[str]] = [[] for _ in bursts]
    for part in PARTS:
        places = [i for i, burst in enumerate(bursts) if burst.kind == part]
        if not places:
            continue
        number = sum(bursts[i].tokens for i in places)
        if scenario.echo:
            tokens = text.tokens_of(wish.said)
        elif part == "tool":
            tokens = tools.arguments(wish.tool, wish.model, seed, number)
        else:
            tokens = text.tokens(part, wish.model, seed, number)
        rest = iter(tokens)
        for i in places:
            out[i] = list(islice(rest, bursts[i].tokens))
        out[places[-1]] += rest
        opening, closing = _tags(part, wish) if wish.flat else _THINK if part == "reasoning" and scenario.think_tags else ((), ())
        out[places[0]][:0] = opening
        out[places[-1]] += closing
    return out


def _tags(part: Part, wish: _Wish) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a model prints around a part where nothing parses it: as Qwen and its kin do."""
    if part == "reasoning":
        return _THINK
    if part == "tool":
        head = '<tool_call>\n{"name": "' + wish.tool.name + '", "arguments": '
        return text.tokens_of(head), ("}", "\n", "</", "tool_call", ">")
    return (), ()
