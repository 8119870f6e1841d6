"""What can be wrong with a configuration, as values: where it stands, and one sentence with the remedy.

Invariant: a problem is one line of printable text, whatever stood in the file, and never holds a value that may be a secret.
"""

from __future__ import annotations

from dataclasses import dataclass

NAME_CHARS = 80  # of a name that somebody else wrote: enough to know it again, short enough for a line
PATH_CHARS = 1024  # of a file's path: it is wanted whole


def printable(text: str, chars: int = NAME_CHARS) -> str:
    """`text` as it can be put into a line: control characters and what no encoding can write escaped, a long one cut off."""
    clean = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text[:chars])
    return clean + "…" if len(text) > chars else clean


@dataclass(frozen=True, slots=True)
class Problem:
    """path: of the setting, e.g. `upstreams[0].base_url`; empty for the file as a whole. line: from 1, if there is one."""

    path: str
    message: str
    line: int | None = None


class ConfigError(Exception):
    """All that is wrong with one configuration. `str()` gives a line for each problem: `file:line: path: message`."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(source, problems)
        self.source = source
        self.problems = problems

    def lines(self) -> list[str]:
        return [self._line(problem) for problem in sorted(self.problems, key=lambda problem: problem.line or 0)]

    def _line(self, problem: Problem) -> str:
        place = printable(self.source, PATH_CHARS)
        place = place if problem.line is None else f"{place}:{problem.line}"
        return ": ".join(part for part in (place, problem.path, problem.message) if part)

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Unfit(Exception):
    """Raised by the readers of single values inside this package; its text is a problem's message."""
