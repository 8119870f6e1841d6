"""Owns whom we trust: the SSL context for upstreams.

Must not know of connections. Verification of chain and name is never off; there is no switch for it.
Trust is a union: what OpenSSL was built to trust, the operating system's well-known bundle (a Python that was built elsewhere
does not look there, and that is where a company's own authority is installed), certifi's, SSL_CERT_FILE and SSL_CERT_DIR, and
an upstream's own `ca_file`.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import certifi

SYSTEM_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS, the BSDs
)

ContextFactory = Callable[[], ssl.SSLContext]


class TrustError(Exception):
    """A certificate file or directory that somebody named cannot be used; the message names it and who named it."""


def context_factory(ca_file: str | None = None, environ: Mapping[str, str] = os.environ) -> ContextFactory:
    """A factory that makes the context at its first call (some 40 ms: call it in a thread) and returns the same one ever after.

    It raises TrustError.
    """
    lock = threading.Lock()
    made: list[ssl.SSLContext] = []

    def factory() -> ssl.SSLContext:
        with lock:
            if not made:
                made.append(_make(ca_file, environ))
            return made[0]

    return factory


def _make(ca_file: str | None, environ: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    built_in = ssl.get_default_verify_paths()
    # With SSL_CERT_FILE set OpenSSL reads that in place of its own bundle: hence all of them, by name.
    for bundle in dict.fromkeys((built_in.openssl_cafile, *SYSTEM_BUNDLES, certifi.where())):
        if Path(bundle).is_file():
            _load_if_possible(context, bundle)
    if Path(built_in.openssl_capath).is_dir():
        context.load_verify_locations(capath=built_in.openssl_capath)
    _load(context, environ.get("SSL_CERT_FILE"), "SSL_CERT_FILE")
    directory = environ.get("SSL_CERT_DIR")
    if directory:
        for part in directory.split(os.pathsep):
            if not Path(part).is_dir():
                raise TrustError(f"SSL_CERT_DIR names {part}, which is not a directory")
            context.load_verify_locations(capath=part)
    _load(context, ca_file, "ca_file")
    return context


def _load(context: ssl.SSLContext, file: str | None, named_by: str) -> None:
    if not file:
        return
    try:
        context.load_verify_locations(cafile=file)
    except (ssl.SSLError, OSError) as error:
        cause = "it holds no certificate in PEM form" if isinstance(error, ssl.SSLError) else os.strerror(error.errno or 0).lower()
        raise TrustError(f"{named_by} names {file}, which cannot be used: {cause}") from error


def _load_if_possible(context: ssl.SSLContext, bundle: str) -> None:
    try:
        context.load_verify_locations(cafile=bundle)
    except (ssl.SSLError, OSError):
        return  # a bundle that nobody named: what it would have added is missing, and a handshake will say so
