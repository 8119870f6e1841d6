"""Which sign of life a client's idle clock honours: by dialect and client, as tried with the real clients (docs/clients.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from gateway.dialects.base import Style

Wanted = Literal["auto", "comment", "chunk", "native"]

# Clients whose idle clock looks at events only, by a word of what they call themselves. LangChain's is one of them and calls itself what it
# is made of, OpenAI's asynchronous SDK. That SDK's `responses.stream()` refuses any event before the first of its own.
_BY_CLIENT: Final[tuple[tuple[str, str, Style], ...]] = (
    ("responses", "codex", "native"),
    ("responses", "asyncopenai/python", "late"),
    ("chat", "asyncopenai/python", "chunk"),
)
# Anthropic's own servers send pings, so every client of that API knows them.
_BY_DIALECT: Final[dict[str, Style]] = {"messages": "native"}
# Programs that have Codex inside (editors) put their own name into its User-Agent; its header fields stay.
_TELLTALE: Final = b"x-codex-"


def client_of(fields: Iterable[tuple[bytes, bytes]]) -> str:
    """What a request says of the program that sent it, in lower case, for `style_for`."""
    agent, inside = b"", b""
    for name, value in fields:
        if name == b"user-agent":
            agent = value
        elif name.startswith(_TELLTALE):
            inside = b" codex"
    return (agent + inside).decode("latin-1").lower()


def style_for(wanted: Wanted, dialect: str, client: str) -> Style:
    if wanted != "auto":
        return wanted
    client = client.lower()
    for name, word, style in _BY_CLIENT:
        if name == dialect and word in client:
            return style
    return _BY_DIALECT.get(dialect, "comment")
