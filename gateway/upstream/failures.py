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
