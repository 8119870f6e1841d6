"""Reasoning inside an answer's text: `<think>` and its kin, found wherever the deltas are cut.

Owns the scanner of one text. It must not know JSON, chunks or what becomes of what it finds. Invariants: the texts of the segments, held
text included, concatenate to what was fed; where the text is cut does not change which segments come out; at most one tag is held.

What counts as a tag, so that text about tags is not taken for them:
- in code (between backticks, in a fence) nothing does;
- an opening tag at the beginning of a line does; in the midst of one it does unless a quote stands before it or a blank, a quote or
  punctuation behind it, as in "put it between <think> tags";
- inside, the first closing tag of the same name ends the reasoning, unless it stands between quotes or closes a tag that was opened inside;
  an opening tag right at the beginning was only said twice (by the template and by the model), and closes with the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from gateway.piece import Kind

TAGS: Final = ("think", "thinking", "reasoning")
_QUOTES: Final = "\"'“”‘’"
_MENTIONED_BY: Final = " \t.,;:!?)]}-`" + _QUOTES  # behind a tag that is only spoken of
_FENCE: Final = 3  # so many backticks open code that ends at a line of as many, not at the line's end


class Segment(NamedTuple):
    """A stretch of text. tag: it is the tag that opens or closes reasoning, and counts as reasoning."""

    kind: Kind
    text: str
    tag: bool = False


@lru_cache(maxsize=64)  # one for each setting in use
def _patterns(names: Sequence[str]) -> tuple[re.Pattern[str], frozenset[str]]:
    """What the scanner looks at; and every beginning of a tag, in lower case."""
    tags = [f"<{slash}{name.lower()}>" for name in names for slash in ("", "/")]
    listed = "|".join(re.escape(name) for name in names) or "(?!)"  # none: nothing is a tag
    pattern = re.compile(f"`+|\n|<(/?)({listed})>", re.IGNORECASE)
    return pattern, frozenset(tag[:size] for tag in tags for size in range(1, len(tag)))


class Scanner:
    """Feed the text of one choice, delta by delta.

    inside: what follows is reasoning. stray: a closing tag came that nothing had opened, so what stood before it was reasoning.
    """

    __slots__ = (
        "_beginnings",
        "_code",
        "_depth",
        "_first",
        "_fresh",
        "_held",
        "_last",
        "_longest",
        "_name",
        "_nested",
        "_pattern",
        "_run",
        "inside",
        "stray",
    )

    def __init__(self, names: Sequence[str] = TAGS, inside: bool = False) -> None:
        self._pattern, self._beginnings = _patterns(tuple(names))
        self._longest = max(map(len, self._beginnings), default=0)
        self.inside = inside
        self.stray = False
        self._name = ""  # of the tag that opened; empty where the text began inside: any closes it
        self._depth = 0  # tags of that name that were opened inside
        self._nested: bool | None = None  # the last thing was an opening tag inside, at a line's beginning or not: what follows decides
        self._code = 0  # backticks that opened the code we are in
        self._run = 0  # backticks that the text ends with so far
        self._first = True  # nothing but blanks since the line began
        self._fresh = True  # nothing but blanks since the reasoning began
        self._last = ""
        self._held = ""

    @property
    def awake(self) -> bool:
        """Whether text without `<` and backticks matters too."""
        return self.inside or bool(self._code or self._run or self._held)

    def resume(self, before: str) -> None:
        """Text that did not matter was left out; `before` is its end."""
        self._last = before[-1:]
        self._first = self._last in ("", "\n")

    def feed(self, text: str) -> list[Segment]:
        return self._scan(self._held + text, False)

    def flush(self) -> list[Segment]:
        """What is held, when nothing follows: it was no tag, unless it is the closing one."""
        return self._scan(self._held, True) if self._held else []

    def _scan(self, text: str, last: bool) -> list[Segment]:
        out: list[Segment] = []
        self._held = ""
        keep = None  # where the text begins whose meaning is still open
        start = done = 0  # of the segment; of what the state knows of
        for found in self._pattern.finditer(text):
            at, end = found.span()
            self._see(text[done:at])
            done = at
            if text[at] == "`":
                self._backticks(end - at)
            elif text[at] == "\n":
                self._line()
            else:
                self._settle("<")
                verdict = False if self._code else self._judge(found[1], found[2].lower(), text[end : end + 1], last)
                if verdict is None:
                    keep = at
                    break
                if verdict:
                    self._add(out, text[start:at])
                    out.append(Segment(Kind.REASONING, text[at:end], True))
                    self._turn(found[2].lower())
                    start = end
                else:
                    self._first = self._fresh = False
                    self._last = ">"
            done = end
        if keep is None:
            keep = len(text) if last else self._beginning(text, done)
            self._see(text[done:keep])
            if keep < len(text):
                self._settle("<")
                if self._code:
                    self._see(text[keep:])
                    keep = len(text)
        self._add(out, text[start:keep])
        self._held = text[keep:]
        return out

    def _beginning(self, text: str, done: int) -> int:
        """Where the text ends with the beginning of a tag; its length where it does not."""
        at = text.rfind("<", max(done, len(text) - self._longest))
        return at if at >= 0 and text[at:].lower() in self._beginnings else len(text)

    def _judge(self, slash: str, name: str, following: str, last: bool) -> bool | None:
        """Whether a tag opens or closes reasoning; None where what follows it must be seen first."""
        quoted = bool(self._last) and self._last in _QUOTES
        if not self.inside:
            if slash:
                self.stray = True
                return False
            if self._first:
                return True
            if quoted:
                return False
            if not following:
                return False if last else None
            return following not in _MENTIONED_BY
        if self._name not in ("", name):
            return False
        if not slash:
            if not self._fresh and not quoted:
                self._nested = self._first
            return False
        if quoted:
            if not following and not last:
                return None
            if following and following in _QUOTES:
                return False
        if self._depth:
            self._depth -= 1
            return False
        return True

    def _turn(self, name: str) -> None:
        self.inside = not self.inside
        self._name = name if self.inside else ""
        self._depth = self._code = self._run = 0
        self._nested = None
        self._first = self._fresh = True
        self._last = ""

    def _see(self, plain: str) -> None:
        """Text without line ends, backticks and tags."""
        if not plain:
            return
        self._settle(plain[0])
        if (self._first or self._fresh) and not plain.isspace():
            self._first = self._fresh = False
        self._last = plain[-1]

    def _line(self) -> None:
        self._settle("\n")
        if self._code < _FENCE:  # a lone backtick does not make code of all that follows
            self._code = 0
        self._first = True
        self._last = "\n"

    def _backticks(self, count: int) -> None:
        self._settle("`")
        self._run += count
        self._first = self._fresh = False
        self._last = "`"

    def _settle(self, following: str) -> None:
        """What was open until the next character came: a run of backticks, an opening tag inside."""
        if self._run and following != "`":
            if not self._code:
                self._code = self._run
            elif self._run == self._code or self._run > self._code >= _FENCE:
                self._code = 0
            self._run = 0
        if self._nested is not None:
            self._depth += following.isalnum() or (self._nested and following == "\n")
            self._nested = None

    def _add(self, out: list[Segment], text: str) -> None:
        if text:
            out.append(Segment(Kind.REASONING if self.inside else Kind.CONTENT, text))


class Thinking:
    """The scanners of a stream's choices, for telling the kind of text that stays as it is.

    awake: whether text without `<` and backticks matters too. unclosed: a choice ended inside. stray: one closed what nothing had opened.
    """

    __slots__ = ("_begins_inside", "_names", "_scanners", "awake")

    def __init__(self, names: Sequence[str] = TAGS, begins_inside: bool = False) -> None:
        self._names = names
        self._begins_inside = begins_inside
        self._scanners: dict[int, Scanner] = {}
        self.awake = begins_inside

    def scanner(self, index: int) -> Scanner:
        found = self._scanners.get(index)
        if found is None:
            found = self._scanners[index] = Scanner(self._names, self._begins_inside)
        return found

    def kind(self, index: int, text: str, before: str) -> Kind:
        """The kind of a choice's next text, that of the last in it. `before`: how the text before it ended."""
        scanner = self.scanner(index)
        if not scanner.awake:
            scanner.resume(before)
        segments = scanner.feed(text)
        self.awake = any(each.awake for each in self._scanners.values())
        if segments:
            return segments[-1].kind
        return Kind.REASONING if scanner.inside else Kind.CONTENT

    def elsewhere(self, index: int) -> None:
        """Reasoning comes in a field of its own: then the text has not begun inside."""
        if self._begins_inside and index not in self._scanners:
            self._scanners[index] = Scanner(self._names)
            self.awake = any(each.awake for each in self._scanners.values())

    @property
    def unclosed(self) -> bool:
        return any(scanner.inside for scanner in self._scanners.values())

    @property
    def stray(self) -> bool:
        return any(scanner.stray for scanner in self._scanners.values())
