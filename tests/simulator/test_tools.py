"""Which tool is called, and with what."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gateway.simulator.tools import EDIT_FILE, Tool, arguments, choose

from .asking import stream, whole

BASH = Tool(
    "Bash",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "description": {"type": "string"},
            "timeout": {"type": "number"},
        },
        "required": ["command"],
    },
)
SHELL = Tool(
    "shell",
    {
        "type": "object",
        "properties": {"command": {"type": "array", "items": {"type": "string"}}, "workdir": {"type": "string"}},
        "required": ["command", "workdir"],
    },
)
MIXED = Tool(
    "search",
    {
        "type": "object",
        "properties": {
            "file_path": {"type": "string"},
            "query": {"type": "string"},
            "mode": {"type": "string", "enum": ["exact", "fuzzy"]},
            "limit": {"type": "integer"},
            "deep": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "options": {"type": "object"},
            "note": {"type": ["string", "null"]},
        },
        "required": ["mode", "query", "file_path", "limit", "deep", "tags", "options", "note"],
    },
)


@pytest.mark.parametrize("tool", [EDIT_FILE, BASH, SHELL, MIXED, Tool("bare"), Tool("empty", {"properties": {}})])
@pytest.mark.parametrize("number", [1, 30, 900])
def test_arguments_are_json_with_all_that_is_required_and_nothing_else(tool: Tool, number: int) -> None:
    given: dict[str, Any] = json.loads("".join(arguments(tool, "tool-call", "0", number)))
    assert list(given) == tool.schema.get("required", [])


def test_arguments_have_about_the_tokens_asked_for() -> None:
    assert abs(len(arguments(EDIT_FILE, "tool-call", "0", 1000)) - 1000) <= 2
    assert abs(len(arguments(SHELL, "tool-call", "0", 300)) - 300) <= 2


def test_a_file_is_written_with_quotes_newlines_and_backslashes() -> None:
    content = json.loads("".join(arguments(EDIT_FILE, "tool-call", "0", 900)))["content"]
    assert all(mark in content for mark in ('"', "\n", "\\"))


def test_a_command_only_echoes_plain_words() -> None:
    assert re.fullmatch("echo [a-z ]+", json.loads("".join(arguments(BASH, "m", "0", 200)))["command"])
    program, words = json.loads("".join(arguments(SHELL, "m", "0", 200)))["command"]
    assert program == "echo"
    assert re.fullmatch("[a-z ]+", words)


def test_the_tool_that_the_request_demands_is_called_else_one_that_runs_commands_else_the_first() -> None:
    assert choose([MIXED, BASH], "search") is MIXED
    assert choose([MIXED, BASH]) is BASH
    assert choose([MIXED, EDIT_FILE]) is MIXED
    assert choose([]) is EDIT_FILE


def test_the_clients_own_tool_is_called_in_every_dialect() -> None:
    chat = whole("chat", "tool-call", tools=[{"type": "function", "function": {"name": "Bash", "parameters": BASH.schema}}])
    assert chat["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "Bash"
    responses = whole("responses", "tool-call", tools=[{"type": "function", "name": "Bash", "parameters": BASH.schema}])
    assert responses["output"][-1]["name"] == "Bash"
    messages = whole("messages", "tool-call", tools=[{"name": "Bash", "input_schema": BASH.schema}])
    assert list(messages["content"][-1]["input"]) == ["command"]
    completions = whole("completions", "tool-call")
    assert '<tool_call>\n{"name": "edit_file", "arguments": {' in completions["choices"][0]["text"]


@pytest.mark.parametrize(
    ("dialect", "history"),
    [
        ("chat", {"messages": [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "c", "content": "done"}]}),
        ("responses", {"input": [{"type": "function_call_output", "call_id": "c", "output": "done"}]}),
        ("messages", {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "done"}]}]}),
        # Agents put notes behind it.
        (
            "chat",
            {
                "messages": [
                    {"role": "user", "content": "x"},
                    {"role": "tool", "tool_call_id": "c", "content": "d"},
                    {"role": "system", "content": "n"},
                ]
            },
        ),
        (
            "responses",
            {
                "input": [
                    {"type": "custom_tool_call_output", "call_id": "c", "output": "d"},
                    {"type": "message", "role": "developer", "content": []},
                ]
            },
        ),
        (
            "messages",
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}, {"type": "text", "text": "note"}]}]},
        ),
    ],
)
def test_a_tools_result_is_answered_in_text_so_that_agents_end(dialect: str, history: dict[str, Any]) -> None:
    body = stream(dialect, "tool-call", **history).body
    assert b"edit_file" not in body
    assert b"tool_use" not in body
    assert any(end in body for end in (b'"finish_reason":"stop"', b'"response.completed"', b'"end_turn"'))


def test_a_codex_turn_gets_its_command_and_its_sealed_reasoning() -> None:
    """Its tools are of kinds that only the provider knows, and what it was sent comes back in the next turn."""
    asked: dict[str, Any] = {
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "tools": [
            {"type": "web_search"},
            {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn", "parameters": {}}]},
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
            {"type": "function", "name": "exec_command", "parameters": {**BASH.schema, "required": ["command"]}},
        ],
    }
    first = whole("responses", "tool-call", **asked, input=[{"role": "user", "content": "do it"}])
    reasoning, call = first["output"]
    assert reasoning["encrypted_content"]
    assert (call["type"], call["name"]) == ("function_call", "exec_command")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}
    second = whole("responses", "tool-call", **asked, input=[{"role": "user", "content": "do it"}, reasoning, call, result])
    assert [item["type"] for item in second["output"]] == ["reasoning", "message"]


def test_a_claude_code_turn_gets_its_command() -> None:
    asked: dict[str, Any] = {
        "max_tokens": 32000,
        "system": [{"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "medium"},
        "tools": [{"name": "Agent", "input_schema": {}}, {"name": "Bash", "input_schema": BASH.schema}],
    }
    first = whole("messages", "tool-call", **asked, messages=[{"role": "user", "content": [{"type": "text", "text": "do it"}]}])
    assert [(block["type"], block.get("name")) for block in first["content"]] == [("thinking", None), ("tool_use", "Bash")]
    assert first["content"][0]["signature"]
