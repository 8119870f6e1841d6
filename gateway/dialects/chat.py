"""Chat completions: `POST /v1/chat/completions`."""

from __future__ import annotations

from typing import ClassVar

from gateway.dialects.choices import ChoicesDialect


class Chat(ChoicesDialect):
    name: ClassVar[str] = "chat"
    operation: ClassVar[str] = "chat"
