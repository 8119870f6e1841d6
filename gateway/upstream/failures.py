"""Owns the sentences in which a failed connection is reported, as httpx's own exceptions named by phase.

Each message is one sentence that names host and port, the phase and the cause. It must never hold a header, a body or a
credential: the URL's path and query stay out of it, and of a proxy's URL everything but the name of its variable.
Every exception made here has its `request` set, but for `broken`'s.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from typing import Final

import httpx


class ResolveError(httpx.ConnectError):
    """The host's name has no address, or nobody could be asked for it."""


class TLSError(httpx.ConnectError):
    """The peer was reached, but TLS with it failed: its certificate, its name, or no TLS there at all."""


class NotProcessed(httpx.ReadError):
    """The upstream has said that it did nothing about this request: it may be sent again, whatever its method."""


class Unheard(httpx.ReadError):
    """A connection that had carried others was dead already when this request went out on it: not a byte came afterwards."""


# OpenSSL's X509_V_ERR_*: the chain ends in nobody whom we trust.
UNKNOWN_ISSUER: Final = frozenset({2, 18, 19, 20, 21, 27})
EXPIRED: Final = 10
WRONG_NAME: Final = frozenset({62, 64})


def place(host: str, port: int) -> str:
    """host:port, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def resolve_failed(error: Exception, host: str, request: httpx.Request) -> ResolveError:
    """From getaddrinfo's error."""
    cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return ResolveError(f"cannot resolve the name {host}: {cause}", request=request)


def connect_failed(errors: Sequence[Exception], host: str, port: int, request: httpx.Request) -> httpx.ConnectError:
    """From what each of the host's addresses answered, at least one."""
    causes = dict.fromkeys(_cause(error) for error in errors)  # each once, in order
    return httpx.ConnectError(f"cannot connect to {place(host, port)}: {', '.join(causes)}", request=request)


def connect_timed_out(phase: str, host: str, port: int, seconds: float, request: httpx.Request) -> httpx.ConnectTimeout:
    return httpx.ConnectTimeout(f"no connection to {place(host, port)} within {seconds:g} s (still {phase})", request=request)


def tls_failed(error: Exception, host: str, port: int, request: httpx.Request) -> TLSError:
    """From what the handshake ended with: an SSLError, or the OSError of a peer that hung up."""
    where = place(host, port)
    if isinstance(error, ssl.SSLCertVerificationError):
        return TLSError(f"TLS with {where} failed: {_distrust(error, host)}", request=request)
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        hint = "; is it plain http there?" if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG") else ""
        return TLSError(f"TLS with {where} failed: {reason}{hint}", request=request)
    return TLSError(f"TLS with {where} failed: {_cause(error)}", request=request)


def trust_failed(error: Exception, host: str, port: int, request: httpx.Request) -> TLSError:
    """The SSL context itself could not be made: a certificate file that is missing or holds no certificate."""
    return TLSError(f"TLS with {place(host, port)} cannot be begun: {error}", request=request)


def broken(error: Exception, writing: bool) -> httpx.ReadError | httpx.WriteError:
    """From what a connection was lost with in the middle of an exchange; its `request` is set by the connection."""
    kind = httpx.WriteError if writing else httpx.ReadError
    return kind(f"the connection to the upstream broke: {_cause(error)}")


# RFC 9113, section 7: what the upstream says when it ends a stream or a connection.
CODES: Final = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
)
REFUSED_STREAM: Final = 0x7
HTTP_1_1_REQUIRED: Final = 0xD


def stream_reset(code: int, answered: bool) -> httpx.ReadError:
    """The upstream has reset the stream, after it had begun to answer or before; its `request` is set by the stream."""
    if answered:
        return httpx.ReadError(f"the upstream reset the stream in the middle of its response ({_code(code)})")
    if code == HTTP_1_1_REQUIRED:
        return NotProcessed("the upstream wants HTTP/1.1 for this request (HTTP_1_1_REQUIRED): set http2 to false for it")
    kind = NotProcessed if code == REFUSED_STREAM else httpx.ReadError
    return kind(f"the upstream reset the stream ({_code(code)})")


def gone_away(code: int) -> NotProcessed:
    """The upstream is closing the connection and has not looked at this stream; its `request` is set by the stream."""
    return NotProcessed(f"the upstream closed the connection before it took the request (GOAWAY, {_code(code)})")


def http2_missing(host: str, port: int, request: httpx.Request) -> TLSError:
    return TLSError(f"TLS with {place(host, port)} came about, but without HTTP/2, which http2: true demands", request=request)


def _code(code: int) -> str:
    return CODES[code] if code < len(CODES) else f"error {code}"


def _cause(error: Exception) -> str:
    # The loops put the address where strerror should be; errno says what happened.
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


def _distrust(error: ssl.SSLCertVerificationError, host: str) -> str:
    told = error.verify_message
    if error.verify_code in WRONG_NAME:
        return f"the certificate is not for {host} ({told})"
    if error.verify_code == EXPIRED:
        return f"the certificate of {host} has expired"
    if error.verify_code in UNKNOWN_ISSUER:
        return (
            f"the certificate of {host} comes from an issuer that is not trusted here ({told}); "
            "name the issuer's certificate in ca_file or SSL_CERT_FILE"
        )
    return f"the certificate of {host} is not valid ({told})"
