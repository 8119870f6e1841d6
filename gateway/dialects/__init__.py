"""The dialects, by the path that speaks them. A new one is a module here, a line in DIALECTS and a corpus in tests/corpus."""

from __future__ import annotations

from gateway.dialects.base import Dialect
from gateway.dialects.chat import Chat
from gateway.dialects.completions import Completions
from gateway.dialects.plain import Plain

# Path below /v1 -> what its streams speak.
DIALECTS: dict[bytes, type[Dialect]] = {
    b"/chat/completions": Chat,
    b"/completions": Completions,
}

__all__ = ["DIALECTS", "Chat", "Completions", "Dialect", "Plain"]
