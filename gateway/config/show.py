"""Settings to YAML, for `--print-config`: every setting that is in force, in the order of the schema, secrets hidden.

Invariants: what it prints is ASCII, for any terminal and pipe, and loads again, to the same settings but for what is hidden.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import yaml

from gateway.config.schema import HEADER, PAIRS, Field, fields_of
from gateway.config.texts import is_secret_header
from gateway.settings import Settings, Text

HIDDEN: Final = "***"

_HEAD = f"# The effective settings. Times are in seconds, sizes in bytes. Secrets are shown as {HIDDEN}: put ${{NAME}} there.\n"


def show(settings: Settings) -> str:
    return _HEAD + yaml.safe_dump(_section(settings), sort_keys=False, width=10_000)


def _section(section: Any) -> dict[str, Any]:
    return {name: _value(field, getattr(section, name)) for name, field in fields_of(type(section)).items()}


def _value(field: Field, value: Any) -> Any:
    if field.is_section:
        return [_section(item) for item in value] if field.many else _section(value)
    if field.type == HEADER:
        return {name: HIDDEN if is_secret_header(name) else _escaped(text) for name, text in value}
    if field.type in PAIRS:
        return {name: _escaped(item) if isinstance(item, str) else item for name, item in value}
    if field.many:
        return list(dict.fromkeys(_string(field, item) for item in value))  # hidden keys look alike: once, or it would not load again
    if value is None:
        return None if field.type is str else "off"
    return _string(field, value) if isinstance(value, str) else value


def _string(field: Field, text: str) -> str:
    role = field.mark.role if isinstance(field.mark, Text) else None
    if role in ("secret", "redis"):
        return HIDDEN
    return _escaped(_without_secrets(text) if role == "url" else text)


def _without_secrets(url: str) -> str:
    """A file's URL has none; one that code made may carry a user and a password, or a key in its query."""
    parts = urlsplit(url)
    if "@" not in parts.netloc and not parts.query and not parts.fragment:
        return url
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _escaped(text: str) -> str:
    return text.replace("${", "$${")
