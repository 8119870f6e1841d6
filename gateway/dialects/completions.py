"""Legacy completions: `POST /v1/completions`, whose choices carry `text` and no delta."""

from __future__ import annotations

from gateway.dialects.choices import ChoicesDialect


class Completions(ChoicesDialect):
    name = "completions"
    operation = "text_completion"
    has_delta = False
    object_name = "text_completion"
