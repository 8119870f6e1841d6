"""What an upstream's trouble means to the client: httpx's exceptions by phase, as failures with a remedy."""

from __future__ import annotations

import httpx

from gateway.errors import Failure
from gateway.relay.patience import Overdue
from gateway.upstream.failures import TLSError


def before_the_answer(error: Exception) -> Failure:
    """From what opening the upstream's answer ended with. Messages of our transport name host, phase and cause, and no secret."""
    said = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout):
        return Failure("upstream_connect_timeout", f"{said}. Check the upstream's address, or raise clocks.connect.")
    if isinstance(error, httpx.TimeoutException):
        return Failure("upstream_headers_timeout", "The upstream did not begin to answer within clocks.headers.")
    if isinstance(error, TLSError):
        return Failure("upstream_tls", f"{said}. A private CA is named by SSL_CERT_FILE or the upstream's ca_file.")
    if isinstance(error, httpx.ConnectError | httpx.ProxyError | httpx.UnsupportedProtocol):
        return Failure("upstream_unreachable", f"{said}. Check that the upstream runs and that its base_url is right.")
    if isinstance(error, httpx.ProtocolError):
        return Failure("upstream_protocol", f"The upstream's answer was not valid HTTP: {said}.")
    return Failure("upstream_reset", "The upstream closed the connection before it answered. Ask again.")


def of_the_status(status: int) -> Failure | None:
    """A status that HTTP does not know cannot be passed on (RFC 9110, section 15)."""
    if 200 <= status <= 599:
        return None
    return Failure("upstream_protocol", f"The upstream answered with the status {status}, which HTTP does not know.")


def in_the_answer(error: Exception) -> Failure:
    """From what the body of the upstream's answer ended with."""
    if isinstance(error, Overdue):
        return error.failure
    if isinstance(error, httpx.TimeoutException):
        return Failure("upstream_silent", "The upstream fell silent in the middle of its answer. Ask again.")
    return Failure("upstream_reset", "The connection to the upstream broke in the middle of its answer, so it is cut short. Ask again.")
