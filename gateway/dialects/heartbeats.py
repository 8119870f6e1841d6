"""Which sign of life a client's idle clock honours: by dialect and User-Agent, as tried with the real clients (docs/clients.md)."""

from __future__ import annotations

from typing import Final, Literal

from gateway.dialects.base import Style

Wanted = Literal["auto", "comment", "chunk", "native"]

# Clients whose idle clock looks at events only, by a word of their User-Agent. LangChain's is one of them and calls itself what it is
# made of, OpenAI's asynchronous SDK. That SDK's `responses.stream()` refuses any event before the first of its own.
_BY_AGENT: Final[tuple[tuple[str, str, Style], ...]] = (
    ("responses", "codex", "native"),
    ("responses", "asyncopenai/python", "late"),
    ("chat", "asyncopenai/python", "chunk"),
)
# Anthropic's own servers send pings, so every client of that API knows them.
_BY_DIALECT: Final[dict[str, Style]] = {"messages": "native"}


def style_for(wanted: Wanted, dialect: str, user_agent: str) -> Style:
    if wanted != "auto":
        return wanted
    agent = user_agent.lower()
    for name, word, style in _BY_AGENT:
        if name == dialect and word in agent:
            return style
    return _BY_DIALECT.get(dialect, "comment")
