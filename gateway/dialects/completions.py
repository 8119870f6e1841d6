"""Legacy completions: `POST /v1/completions`, whose choices carry `text` and no delta."""

from __future__ import annotations

from typing import ClassVar

from gateway.dialects.choices import ChoicesDialect


class Completions(ChoicesDialect):
    name: ClassVar[str] = "completions"
    operation: ClassVar[str] = "text_completion"
    has_delta: ClassVar[bool] = False
    object_name: ClassVar[str] = "text_completion"
