"""Which heartbeat a client gets: the table of docs/clients.md, with what the clients there really send."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from dialects.reading import event
from gateway.dialects import DIALECTS, Chat, Responses
from gateway.dialects.base import Style
from gateway.dialects.heartbeats import Wanted, client_of, style_for

CODEX = "codex_exec/0.171.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.171.0)"
AGENTS = {
    "codex": CODEX,
    "codex in a terminal": "codex_cli_rs/0.171.0 (Debian 12.0.0; x86_64) xterm",
    "codex of an editor": "codex_vscode/0.171.0 (Debian 12.0.0; x86_64)",
    "claude code": "claude-cli/2.1.332 (external, sdk-cli)",
    "opencode": "opencode/1.18.33 ai-sdk/provider-utils/4.0.40 runtime/bun/1.3.14",
    "ai sdk": "ai-sdk-openai/4.0.118 ai-sdk-provider-utils/5.0.81 node.js/24",
    "pydantic-ai": "pydantic-ai/2.68.0",
    "openai-python": "OpenAI/Python 3.57.0",
    "openai-python async": "AsyncOpenAI/Python 3.57.0",
    "openai-node": "OpenAI/JS 7.59.0",
    "anthropic-python": "Anthropic/Python 2.14.0",
    "browser": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/156.0.0.0 Safari/537.36",
    "curl": "curl/8.5.0",
    "nothing": "",
}
# Those to which a comment is no sign of life, or not always; the others count bytes.
DEAF = {
    ("codex", "responses"): "native",
    ("codex in a terminal", "responses"): "native",
    ("codex of an editor", "responses"): "native",
    ("openai-python async", "responses"): "late",
    ("openai-python async", "chat"): "chunk",
}


@pytest.mark.parametrize("client", AGENTS)
@pytest.mark.parametrize("dialect", ["chat", "completions", "responses", "messages", "plain"])
def test_auto_goes_by_dialect_and_client(dialect: str, client: str) -> None:
    wanted = "native" if dialect == "messages" else DEAF.get((client, dialect), "comment")
    assert style_for("auto", dialect, client_of([(b"user-agent", AGENTS[client].encode())])) == wanted


@pytest.mark.parametrize("agent", ["zed/0.171.0 (Debian 12.0.0; x86_64) xterm (zed; 1.0)", ""])
def test_codex_inside_another_program_is_known_by_its_fields(agent: str) -> None:
    fields = [(b"x-codex-window-id", b"0"), (b"user-agent", agent.encode()), (b"originator", b"zed")]
    assert style_for("auto", "responses", client_of(fields)) == "native"
    assert style_for("auto", "chat", client_of(fields)) == "comment"


def test_a_request_that_says_nothing_of_its_client_gets_comments() -> None:
    assert style_for("auto", "responses", client_of([(b"accept", b"text/event-stream")])) == "comment"


def test_odd_bytes_in_a_name_are_no_fault() -> None:
    assert style_for("auto", "responses", client_of([(b"user-agent", b"\xff\xfeCODEX")])) == "native"


@pytest.mark.parametrize("dialect", [made.name for made in DIALECTS.values()])
@pytest.mark.parametrize("wanted", [style for style in get_args(Wanted) if style != "auto"])
def test_a_style_that_is_asked_for_is_taken_whoever_the_client_is(dialect: str, wanted: Wanted) -> None:
    for agent in AGENTS.values():
        assert style_for(wanted, dialect, agent) == wanted


CREATED = {"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1", "object": "response", "model": "m"}}


def native(beat: bytes | None) -> int:
    """Its sequence number."""
    assert beat is not None
    assert beat.startswith(b"event: keepalive\ndata: ")
    told = json.loads(beat.partition(b"data: ")[2])
    assert told["type"] == "keepalive"
    return int(told["sequence_number"])


def test_late_is_a_comment_until_the_streams_first_event_has_left_and_native_from_then_on() -> None:
    """`responses.stream()` of OpenAI's SDK refuses any event before `response.created`; LangChain's clock heeds no comment."""
    dialect = Responses()
    assert dialect.heartbeat("late") is None  # a comment
    [piece] = dialect.read(event(json.dumps(CREATED).encode(), b"response.created"))
    assert dialect.heartbeat("late") is None  # it has come, but not left
    assert b"response.created" in piece.data
    assert [native(dialect.heartbeat("late")), native(dialect.heartbeat("late"))] == [1, 2]


@pytest.mark.parametrize("style", ["chunk", "native"])
def test_responses_has_one_event_for_both_other_styles_before_the_first_of_its_own_as_well(style: Style) -> None:
    assert native(Responses().heartbeat(style)) == 0


def test_late_means_no_more_than_a_comment_to_chat() -> None:
    assert Chat().heartbeat("late") is None
