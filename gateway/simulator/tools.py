"""The call that the model makes: which of the client's tools, and arguments that fit its schema.

Real agents run what they are told to. So a command is an `echo` of plain words, a path is one harmless name, and only
required arguments are given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.simulator import text
from gateway.simulator.encode import Json, json_bytes

_SHELLS: Final = frozenset({"shell", "bash", "exec_command", "shell_command", "local_shell", "run_command"})
_COMMANDS: Final = frozenset({"cmd", "command", "commands", "script", "code"})
_PATHS: Final = frozenset({"path", "file", "file_path", "filename", "filepath", "workdir", "cwd", "dir", "directory"})
_PATH: Final = "decluster-demo.py"
_SHORT_TOKENS: Final = 6  # a string that is not the long one


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    schema: Json = field(default_factory=dict, hash=False)  # a dict has no hash; equality still asks it


# Called where the client offers none.
EDIT_FILE: Final = Tool(
    "edit_file",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
)


def choose(offered: Iterable[Tool], wanted: str | None = None) -> Tool:
    """The tool that the request demands, else one that runs commands, else the first, else ours."""
    tools = list(offered)
    for tool in tools:
        if tool.name == wanted:
            return tool
    for tool in tools:
        if tool.name.lower() in _SHELLS:
            return tool
    return tools[0] if tools else EDIT_FILE


def arguments(tool: Tool, model: str, seed: str, number: int) -> tuple[str, ...]:
    """The call's arguments as JSON text in about `number` tokens, most of them in the last string that takes any length."""
    properties = tool.schema.get("properties") or {}
    names = [name for name in tool.schema.get("required") or properties if isinstance(properties.get(name), dict)]
    long = next((name for name in reversed(names) if _takes_text(name, properties[name])), None)
    out: list[str] = ["{"]
    tail: list[str] = []  # what follows the long string
    words: list[str] = []
    for position, name in enumerate(names):
        target = tail if long in names[:position] else out
        target += [", "] if position else []
        target += [*_string(text.tokens_of(name)), ": "]
        if name == long:
            target.append(_opening(properties[name]))
            tail.append(_closing(properties[name]))
            words = _long(name, properties[name], model, seed, number)
        else:
            target += _short(name, properties[name])
    tail.append("}")
    room = max(_SHORT_TOKENS, number - len(out) - len(tail))
    return (*out, *words[:room], *tail)


def _takes_text(name: str, schema: Json) -> bool:
    kind = schema.get("type")
    if kind == "array":
        return name in _COMMANDS and (schema.get("items") or {}).get("type") == "string"
    return kind == "string" and not schema.get("enum") and name not in _PATHS


def _opening(schema: Json) -> str:
    return '["echo", "' if schema.get("type") == "array" else '"'


def _closing(schema: Json) -> str:
    return '"]' if schema.get("type") == "array" else '"'


def _long(name: str, schema: Json, model: str, seed: str, number: int) -> list[str]:
    """The inside of the long string, JSON-escaped token by token."""
    if name in _COMMANDS:
        words = list(text.plain_words(number, seed))
        return words if schema.get("type") == "array" else ["echo", *words]
    return [_escaped(token) for token in text.tokens("tool", model, seed, number)]


def _short(name: str, schema: Json) -> list[str]:
    if schema.get("enum"):
        return [_json(schema["enum"][0])]
    kind = schema.get("type")
    if kind == "string":
        return _string((_PATH,) if name in _PATHS else text.plain_words(_SHORT_TOKENS, name))
    values: dict[Any, str] = {"integer": "1", "number": "1", "boolean": "false", "array": "[]", "object": "{}"}
    return [values.get(kind if isinstance(kind, str) else None, "null")]


def _string(tokens: Iterable[str]) -> list[str]:
    return ['"', *(_escaped(token) for token in tokens), '"']


def _escaped(token: str) -> str:
    return _json(token)[1:-1]


def _json(value: object) -> str:
    return json_bytes(value).decode()
