"""Chat completions: `POST /v1/chat/completions`."""

from __future__ import annotations

from gateway.dialects.choices import ChoicesDialect


class Chat(ChoicesDialect):
    name = "chat"
    operation = "chat"
