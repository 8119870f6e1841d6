"""The errors that the gateway itself answers with: values until the edge, where they are rendered once.

`code` is one of CODES, which docs/errors.md lists with the remedy of each. An upstream's own error body is not one of these: it
is passed on as it came.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

# code -> (HTTP status before the stream has begun, type, what it means for the one who reads it)
CODES: Final[dict[str, tuple[int, str]]] = {
    "invalid_request": (400, "invalid_request_error"),
    "invalid_control": (400, "invalid_request_error"),
    "not_found": (404, "invalid_request_error"),
    "origin_not_allowed": (403, "invalid_request_error"),
    "host_not_allowed": (403, "invalid_request_error"),
    "request_timeout": (408, "invalid_request_error"),
    "head_too_large": (431, "invalid_request_error"),
    "request_too_large": (413, "invalid_request_error"),
    "unsupported_encoding": (415, "invalid_request_error"),
    "websocket_unsupported": (426, "invalid_request_error"),
    "invalid_api_key": (401, "invalid_request_error"),
    "price_unknown": (400, "invalid_request_error"),
    "budget_exceeded": (402, "billing_error"),
    "rate_limited": (429, "rate_limit_error"),
    "concurrency_limited": (429, "rate_limit_error"),
    "stream_unknown": (404, "invalid_request_error"),
    "idempotency_conflict": (409, "invalid_request_error"),
    "stream_expired": (410, "invalid_request_error"),
    "upstream_unreachable": (502, "upstream_error"),
    "upstream_tls": (502, "upstream_error"),
    "upstream_reset": (502, "upstream_error"),
    "upstream_protocol": (502, "upstream_error"),
    "upstream_incomplete": (502, "upstream_error"),
    "upstream_empty": (502, "upstream_error"),
    "upstream_not_a_stream": (502, "upstream_error"),
    "upstream_event_too_large": (502, "upstream_error"),
    "upstream_bad_event": (502, "upstream_error"),
    "upstream_encoding": (502, "upstream_error"),
    "upstream_error": (502, "upstream_error"),
    "upstream_connect_timeout": (504, "timeout_error"),
    "upstream_headers_timeout": (504, "timeout_error"),
    "upstream_first_content_timeout": (504, "timeout_error"),
    "upstream_silent": (504, "timeout_error"),
    "upstream_total_timeout": (504, "timeout_error"),
    "overloaded": (503, "overloaded_error"),
    "shutting_down": (503, "overloaded_error"),
    "stream_lost": (503, "server_error"),
    "stream_abandoned": (504, "timeout_error"),
    "internal": (500, "server_error"),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with a request, and what to tell the client.

    code: a key of CODES; or, for an error that the upstream put into its stream, "upstream_error" with `body` and `status`.
    message: one sentence with the remedy; never a prompt, an answer or a key.
    status: HTTP status if the response has not begun; 0 takes the code's own.
    body: the upstream's own error object (JSON bytes of `{"error": ...}`), passed on in place of ours.
    headers: to add to an error response, e.g. Retry-After.
    """

    code: str
    message: str
    status: int = 0
    body: bytes | None = None
    param: str | None = None
    headers: tuple[tuple[bytes, bytes], ...] = field(default=())

    @property
    def http_status(self) -> int:
        return self.status or CODES[self.code][0]

    @property
    def type(self) -> str:
        return CODES[self.code][1]
