"""The schema: the dataclasses of gateway/settings, read by reflection, so that a setting is written down once.

A setting's type decides how it is read; its Range or Text mark, what it may be.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from gateway.settings import Cap, Member, Range, Settings, Text

REQUIRED = dataclasses.MISSING
HEADER = tuple[str, str]
MEMBER, CAP = Member, Cap
PAIRS = (HEADER, MEMBER, CAP)  # types of the pairs in a section whose names are free


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One setting.

    type: without its mark and without None; for a tuple, the type of its items, and `many` is true.
    choices: of a Literal. optional: None (`off` or `null` in a file) is allowed. default: REQUIRED if there is none.
    """

    name: str
    type: Any
    many: bool
    optional: bool
    mark: Range | Text | None
    choices: tuple[str, ...]
    default: Any

    @property
    def is_section(self) -> bool:
        return dataclasses.is_dataclass(self.type)


_read: dict[type[Any], dict[str, Field]] = {}  # the schema's classes only, a dozen: reflection costs more than reading a file


def fields_of(cls: type[Any]) -> dict[str, Field]:
    if cls not in _read:
        hints = get_type_hints(cls, include_extras=True)
        _read[cls] = {field.name: _field(field, hints[field.name]) for field in dataclasses.fields(cls)}
    return _read[cls]


def leaves(cls: type[Any] = Settings, prefix: str = "") -> Iterator[tuple[str, Field]]:
    """Every setting that is no section, with its path; items of a list are written `upstreams[].name`."""
    for field in fields_of(cls).values():
        path = f"{prefix}{field.name}"
        if field.is_section:
            yield from leaves(field.type, f"{path}[]." if field.many else f"{path}.")
        else:
            yield path, field


def _field(field: dataclasses.Field[Any], hint: Any) -> Field:
    mark: Range | Text | None = None
    if get_origin(hint) is Annotated:
        hint, mark = get_args(hint)
    optional = get_origin(hint) in (Union, types.UnionType)
    if optional:
        hint = next(part for part in get_args(hint) if part is not type(None))
    many = get_origin(hint) is tuple
    if many:
        hint = get_args(hint)[0]
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return Field(field.name, hint, many, optional, mark, choices, default)
