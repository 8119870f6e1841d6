"""A tree of nodes against the schema: values where they fit, problems where they do not, each with its path and line.

Must not know where the text came from. Invariant: every problem of the tree is found in one reading, none twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from gateway.config import texts, values
from gateway.config.nodes import Scalar, describe, entries, is_nothing, line_of, scalar
from gateway.config.problems import Problem, Unfit, printable
from gateway.config.schema import CAP, HEADER, PAIRS, REQUIRED, Field, fields_of, leaves
from gateway.settings import Range, Text

_KEY_CHARS = 64  # what is compared of an unknown key: difflib's time grows with the square of the length
_ANY = Range(float("-inf"), float("inf"))
_CAP = Range(0, 2**53)  # what JSON's readers take for a whole number


class Reader:
    """Reads sections into dataclasses. problems: all found so far. lines: where each setting stands that was given, by path."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self.problems: list[Problem] = []
        self.lines: dict[str, int] = {}
        self._environ = environ
        self._folder = folder

    def section(self, cls: type[Any], node: Node | None, path: str) -> Any:
        """An instance of `cls`, in which defaults stand in for what did not fit; None where nothing can stand in.

        A missing list is stood in for by an empty one, so that the rules between settings are checked all the same.
        """
        line = line_of(node) if node else 1
        given: dict[str, tuple[Node, int]] = {}
        if isinstance(node, MappingNode):
            given = self._known(cls, node, path)
        elif node is not None and not is_nothing(node):  # nothing: a section whose lines are all commented out
            form = "settings, a line for each as in `listen:`" if not path else "a section of settings, indented below it"
            self._report(path, line, f"must be {form}; found {describe(node)}")
            return None
        arguments: dict[str, Any] = {}
        complete = True
        for name, field in fields_of(cls).items():
            place = _join(path, name)
            if name not in given:
                if field.default is REQUIRED:
                    self._report(place, line, _missing(field))
                    arguments[name] = ()
                    complete = complete and field.many
                continue
            value_node, value_line = given[name]
            self.lines[place] = value_line
            before = len(self.problems)
            value = self._value(field, value_node, value_line, place)
            if value is not None or len(self.problems) == before:
                arguments[name] = value
            elif field.default is REQUIRED:
                arguments[name] = ()
                complete = complete and field.many
        return cls(**arguments) if complete else None

    def _known(self, cls: type[Any], node: MappingNode, path: str) -> dict[str, tuple[Node, int]]:
        good, bad = entries(node)
        for key, line, message in bad:
            self._report(_join(path, printable(key)), line, message)
        known: dict[str, tuple[Node, int]] = {}
        for key, line, value in good:
            if key in fields_of(cls):
                known[key] = (value, line)
            else:
                self._report(_join(path, printable(key)), line, _unknown(cls, path, key))
        return known

    def _value(self, field: Field, node: Node, line: int, path: str) -> Any:
        if field.many:
            return self._many(field, node, line, path)
        if field.is_section:
            return self.section(field.type, node, path)
        try:
            return self._single(field, node)
        except Unfit as error:
            self._report(path, line, str(error))
            return None

    def _many(self, field: Field, node: Node, line: int, path: str) -> Any:
        if is_nothing(node):
            if field.default is not REQUIRED:
                return field.default
            self._report(path, line, _missing(field))
            return None
        if field.type in PAIRS:
            return self._pairs(field, node, line, path)
        if not isinstance(node, SequenceNode):
            self._report(path, line, f"must be a list, a line beginning with - for each; found {describe(node)}")
            return None
        items: list[Any] = []
        for index, item in enumerate(node.value):
            place = f"{path}[{index}]"
            one = Field(field.name, field.type, False, False, field.mark, (), REQUIRED)
            before = len(self.problems)
            value = self._value(one, item, line_of(item), place)
            if len(self.problems) > before:
                continue
            if value in items:
                self._report(place, line_of(item), f"given twice in this list, first as [{items.index(value)}]: take one out")
            items.append(value)
        if field.default is REQUIRED and not node.value:
            self._report(path, line, _missing(field))
        return tuple(items)

    def _pairs(self, field: Field, node: Node, line: int, path: str) -> tuple[tuple[str, Any], ...]:
        """A section whose names are free: headers, members of a body."""
        if not isinstance(node, MappingNode):
            self._report(path, line, f"must be a section of `name: value` lines; found {describe(node)}")
            return ()
        good, bad = entries(node)
        for key, key_line, message in bad:
            self._report(_join(path, printable(key)), key_line, message)
        of_headers = field.type == HEADER
        pairs: dict[str, Any] = {}
        for key, key_line, value in good:
            try:
                name = texts.header_name(key) if of_headers else texts.member(key)
                if name in pairs:
                    raise Unfit("given twice (headers are the same in any case): take one out")  # noqa: TRY301 (one place reports)
                pairs[name] = ""
                found = self._scalar(value)
                if of_headers:
                    pairs[name] = texts.header_value(_text(found))
                else:
                    pairs[name] = values.number(found, _CAP, whole=True) if field.type == CAP else values.member(found)
            except Unfit as error:
                self._report(_join(path, printable(key)), key_line, str(error))
        return tuple(pairs.items())

    def _single(self, field: Field, node: Node) -> Any:
        value = self._scalar(node)
        if field.type is str:
            if field.optional and value.kind == "nothing" and not value.filled:
                return None
            return self._string(field.mark, _text(value))
        if field.optional and values.is_off(value):
            return None
        if field.choices:
            return values.choice(value, field.choices)
        if field.type is bool:
            return values.boolean(value)
        if field.mark and value.kind != "a number" and values.is_off(value):
            raise Unfit("cannot be switched off: set a value, or take the line out for the default")
        bounds = field.mark if isinstance(field.mark, Range) else _ANY
        return values.number(value, bounds, whole=field.type is int)

    def _string(self, mark: Range | Text | None, text: str) -> str:
        role = mark.role if isinstance(mark, Text) else "name"
        if role in ("file", "output"):
            return (texts.file if role == "file" else texts.output)(text, self._folder)
        return texts.RULES[role](text)

    def _scalar(self, node: Node) -> Scalar:
        if not isinstance(node, ScalarNode):
            raise Unfit(f"must be a single value; found {describe(node)}")
        return scalar(node, self._environ)

    def _report(self, path: str, line: int, message: str) -> None:
        self.problems.append(Problem(path, message, line))


def _text(value: Scalar) -> str:
    if value.kind != "text" and not value.filled:
        raise Unfit(f"must be text; found {value.kind} (quotes make text of it)")
    return value.text


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _missing(field: Field) -> str:
    if field.is_section:
        needed = " and ".join(f"{name}:" for name, inner in fields_of(field.type).items() if inner.default is REQUIRED)
        return f"missing: name at least one, with its {needed}"
    return "missing: it has no default"


def _unknown(cls: type[Any], path: str, key: str) -> str:
    """The sentence for a key that is no setting: what was meant, if it is near to one here or is one elsewhere."""
    key = key[:_KEY_CHARS]
    near = get_close_matches(key.lower().replace("-", "_"), fields_of(cls), 1)
    if near:
        return f"unknown key; did you mean {_join(path, near[0])}?"
    elsewhere = [place for place, field in leaves() if field.name == key]
    if elsewhere:
        return f"unknown key here; did you mean {' or '.join(elsewhere[:3])}?"
    return f"unknown key; known here: {', '.join(fields_of(cls))}"
