"""What a Dockerfile says, instruction by instruction, for those who look at it without Docker."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


@dataclass
class Stage:
    """base: a stage's name or an image's. steps: what it does, as (instruction, arguments), with the build's arguments filled in."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)

    def last(self, instruction: str) -> str:
        return [text for name, text in self.steps if name == instruction][-1]

    def words(self, instruction: str) -> list[str]:
        """Of an instruction in its JSON form: that array, which ends it."""
        text = self.last(instruction)
        words = json.loads(text[text.index("[") :])
        assert all(isinstance(word, str) for word in words)
        return list(words)

    @property
    def environment(self) -> dict[str, str]:
        return dict(pair.split("=", 1) for name, text in self.steps if name == "ENV" for pair in text.split())

    @property
    def labels(self) -> dict[str, str]:
        return dict(re.findall(r'([\w.]+)="([^"]*)"', " ".join(text for name, text in self.steps if name == "LABEL")))


def read(path: Path, given: Mapping[str, str] | None = None) -> list[Stage]:
    """`given`: --build-arg."""
    given = given or {}
    text = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    before: dict[str, str] = {}  # ARG before the first FROM, for the FROM lines alone
    stages: list[Stage] = []
    for line in re.sub(r"\\\n", "", text).splitlines():
        name, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if not name:
            continue
        if name == "ARG":
            argument, _, default = rest.partition("=")
            scope = stages[-1].arguments if stages else before
            scope[argument] = given.get(argument, default)
            if stages:
                stages[-1].steps.append((name, argument))
            continue
        if name == "FROM":
            base, *named = _filled(rest, before).split()
            stages.append(Stage(base, named[1] if named else ""))
            continue
        stage = stages[-1]
        stage.steps.append((name, rest if name == "RUN" else _filled(rest, {**stage.arguments, **stage.environment})))
    return stages


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], ""), text)
