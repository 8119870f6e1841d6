"""The dialects, by the path that speaks them. A new one is a module here, a line in DIALECTS and a corpus in tests/corpus."""

from __future__ import annotations

from gateway.dialects.base import Dialect
from gateway.dialects.chat import Chat
from gateway.dialects.completions import Completions
from gateway.dialects.messages import Messages
from gateway.dialects.plain import Plain
from gateway.dialects.responses import Responses

# Path below /v1 -> what its streams speak.
DIALECTS: dict[bytes, type[Dialect]] = {
    b"/chat/completions": Chat,
    b"/completions": Completions,
    b"/messages": Messages,
    b"/responses": Responses,
}


def dialect_of(method: str, path: bytes) -> type[Dialect] | None:
    """What the stream of an answer at this path speaks; None where it is not known here."""
    if method == "POST":
        return DIALECTS.get(path)
    return Responses if method == "GET" and path.startswith(b"/responses/") else None


__all__ = ["DIALECTS", "Chat", "Completions", "Dialect", "Messages", "Plain", "Responses", "dialect_of"]
