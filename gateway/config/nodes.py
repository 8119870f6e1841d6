"""Text to a tree of YAML nodes that know their lines, and `${NAME}` in strings to its value.

Owns all that is YAML: syntax errors, bounds, duplicate keys, tags. It must not know which settings exist. Nothing is
constructed from the file: nodes are text, and the schema decides what a text means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

from gateway.config.problems import Problem, Unfit, printable

MAX_DEPTH = 16  # the schema nests five deep; what nests a thousand deep would end the parser by its recursion
SYNTAX_CHARS = 240  # of pyyaml's own sentence, which is about the syntax and holds a name at most

_TAG = "tag:yaml.org,2002:"
_NOT_TEXT = {_TAG + "null": "nothing", _TAG + "bool": "true or false", _TAG + "int": "a number", _TAG + "float": "a number"}
_PLAIN_TEXT = {_TAG + name for name in ("str", "timestamp", "merge", "value")}  # YAML 1.1 sees more than a person does
_REFERENCE = re.compile(r"\$(?P<escaped>\$)\{|\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}|(?P<broken>))")
_resolve = cast(Callable[[type[Node], str, tuple[bool, bool]], str], Resolver().resolve)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value. kind: "text", or "nothing", "true or false", "a number". bare: it stood without quotes, or was filled in.

    filled: at least a part of it came from the environment.
    """

    text: str
    kind: str
    bare: bool
    filled: bool


class _Loader(yaml.SafeLoader):
    depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.depth >= MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", mark)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def parse(text: str) -> Node | Problem | None:
    """The root node, None for an empty file, or what is wrong with the syntax."""
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:  # characters that YAML does not allow
        line = text.count("\n", 0, error.position) + 1
        return Problem("", f"the character U+{ord(text[error.position]):04X} is not allowed in YAML: take it out", line)
    try:
        node: Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ": ".join(part for part in (error.context, error.problem) if part)
        return Problem("", f"not valid YAML: {printable(what, SYNTAX_CHARS)}", mark.line + 1 if mark else None)
    except (yaml.YAMLError, ValueError, OverflowError):  # pyyaml lets the last two out for escapes like "\UFFFFFFFF"
        return Problem("", "not valid YAML: a character or an escape here stands for nothing", loader.line + 1)
    finally:
        loader.dispose()
    return node


def line_of(node: Node) -> int:
    return int(node.start_mark.line) + 1


def describe(node: Node) -> str:
    """What stands there, for the sentence "found …", without its value."""
    if isinstance(node, MappingNode):
        return "a section"
    if isinstance(node, SequenceNode):
        return "a list"
    return _NOT_TEXT.get(node.tag, "text")


def is_nothing(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == _TAG + "null"


def entries(node: MappingNode) -> tuple[list[tuple[str, int, Node]], list[tuple[str, int, str]]]:
    """The pairs of a section as (key, line, value) and what is wrong with its keys as (key, line, message)."""
    good: list[tuple[str, int, Node]] = []
    bad: list[tuple[str, int, str]] = []
    first_lines: dict[str, int] = {}
    for key_node, value in node.value:
        line = line_of(key_node)
        if not isinstance(key_node, ScalarNode):
            bad.append(("?", line, "a key must be a plain name"))
            continue
        key = str(key_node.value)
        if key_node.tag == _TAG + "merge":
            bad.append((key, line, "merge keys are not read: write the settings out"))
        elif key in first_lines:
            bad.append((key, line, f"given twice, first in line {first_lines[key]}: take one out"))
        else:
            first_lines[key] = line
            good.append((key, line, value))
    return good, bad


def scalar(node: ScalarNode, environ: Mapping[str, str]) -> Scalar:
    """The value with its references to the environment filled in. Raises Unfit for a variable that is not set and for a tag.

    What comes from the environment is the text of one value, never YAML; it means what it would mean without quotes.
    """
    if node.tag not in _NOT_TEXT and node.tag not in _PLAIN_TEXT:
        raise Unfit(f"the tag `{printable(node.tag.removeprefix(_TAG))}` means nothing here: take it out")
    text = _fill(node.value, environ)
    if text == node.value:
        return Scalar(text, _NOT_TEXT.get(node.tag, "text"), bare=node.style is None or node.tag in _NOT_TEXT, filled=False)
    return Scalar(text, _NOT_TEXT.get(_resolve(ScalarNode, text, (True, False)), "text"), bare=True, filled=True)


def _fill(text: str, environ: Mapping[str, str]) -> str:
    """`${NAME}`, `${NAME:-default}` (for a variable that is not set or empty, as in a shell), `$${` for the characters `${`."""
    if "${" not in text:
        return text
    problems: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "${"
        name, default = match["name"], match["default"]
        if name is None:
            problems.append("`${` is not followed by NAME} or NAME:-default}; write `$${` for the characters themselves")
            return ""
        found = environ.get(name)
        if default is not None:
            return found or default[2:]
        if found is None:
            problems.append(f"the environment variable {printable(name)} is not set: set it, or write ${{{printable(name)}:-default}}")
            return ""
        return found

    filled = _REFERENCE.sub(value, text)
    if problems:
        raise Unfit("; ".join(dict.fromkeys(problems)))
    return filled
