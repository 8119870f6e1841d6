"""Strings that have a form: URLs, hosts, names, keys, header fields, files. Each rule raises Unfit with the remedy.

No value is echoed: a URL may carry a password, a header may be a key.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gateway.config.problems import Unfit

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # a metric's label, a log's field
_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_FIELD_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")  # RFC 9110, 5.5, less the bytes above ASCII
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[A-Za-z_][A-Za-z0-9_-]{0,63}){0,3}")
_MODEL_CHARS = 200  # the longest names in use (fine-tunes, paths of weights) have about a hundred
_HEADER_CHARS = 8192  # what servers commonly take as one header line

# Fields that belong to a connection or to the framing of one message (RFC 9110, 7.6.1), or that the gateway decides itself.
RESERVED_HEADERS: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade", "content-length", "host", "expect", "accept-encoding"),
    }
)
_SECRET_HEADER = re.compile(r"auth|cookie|key|token|secret|passw|credential|signature|session|jwt", re.IGNORECASE)


def is_secret_header(name: str) -> bool:
    """Whether a field of this name may hold a credential: rather once too often, since only `--print-config` asks."""
    return bool(_SECRET_HEADER.search(name))


def name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise Unfit("must be a name of letters, digits, dots, dashes and underscores, 64 at most, beginning with a letter or digit")
    return text


def model(text: str) -> str:
    if not text.strip() or len(text) > _MODEL_CHARS or not text.isprintable():
        raise Unfit(f"must be a model's name: printable, {_MODEL_CHARS} characters at most")
    return text


def pattern(text: str) -> str:
    """Of models' names, as a shell has it: `gpt-5*`."""
    try:
        return model(text)
    except Unfit:
        raise Unfit(f"must be a model's name, with * and ? for what may vary: printable, {_MODEL_CHARS} characters at most") from None


def member(text: str) -> str:
    """The name of a member of a request's body, `a.b` for a member of a member."""
    if not _MEMBER.fullmatch(text):
        raise Unfit("is no name of a body's member: letters, digits, dashes and underscores, with a dot before a member of it")
    if text in ("model", "messages", "input", "prompt", "stream"):
        raise Unfit("is the request's own" + (": put the new name into the target's model" if text == "model" else " and cannot be set"))
    return text


def secret(text: str) -> str:
    if not text:
        raise Unfit("must not be empty: set its environment variable, or take the line out to let the client's own key pass")
    if not _VISIBLE.fullmatch(text) or len(text) > _HEADER_CHARS:
        raise Unfit("holds a blank, a line end or a character beyond ASCII: check how it was copied")
    return text


def sha256(text: str) -> str:
    """A client key's hash. A key itself is refused without being shown."""
    if not _SHA256.fullmatch(text):
        raise Unfit("must be the SHA-256 of a key, 64 hexadecimal digits in lower case: `decluster key` makes a key and its hash")
    return text


def redis(text: str) -> str:
    """A URL that may carry a password, so that no problem repeats it and `--print-config` hides it."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        port = 0
    if port == 0 or any(not char.isprintable() or char.isspace() for char in text):
        raise Unfit("is no URL: check its host and its port (1 to 65535)")
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise Unfit("must begin with redis:// or rediss:// and a host, such as redis://127.0.0.1:6379/0")
    return text


def host(text: str) -> str:
    if not (_is_address(text) and text.isprintable() and " " not in text) and not _HOST.fullmatch(text):
        raise Unfit("must be an address or a host name, such as 127.0.0.1, ::1 or 0.0.0.0, without scheme, port or brackets")
    return text


def url(text: str) -> str:
    if any(not char.isprintable() or char.isspace() for char in text):
        raise Unfit("holds a blank or a control character: take it out")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # an IPv6 address without its bracket, a port beyond 65535
        raise Unfit("is no URL: check its host and its port (1 to 65535)") from None
    if port == 0:
        raise Unfit("is no URL: check its host and its port (1 to 65535)")
    if parts.scheme not in ("http", "https"):
        raise Unfit("must begin with http:// or https://, such as https://api.openai.com/v1")
    if "@" in parts.netloc:
        raise Unfit("must not carry credentials: put the key into api_key as ${NAME}")
    if "?" in text or "#" in text:
        raise Unfit("must end with its path, without ? or #: the gateway adds each request's own query")
    if not _is_url_host(parts):
        raise Unfit("needs a host after ://, in ASCII (international names in their xn-- form)")
    if not text.isascii():
        raise Unfit("must be ASCII: write other characters of the path as %XX")
    return text


def origin(text: str) -> str:
    """What a browser sends as a page's Origin, in its own spelling: lower case, without the scheme's usual port."""
    if text in ("*", "null"):
        return text
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        port = 0
    if port == 0 or not parts.scheme or not parts.netloc or "@" in parts.netloc or parts.path or "?" in text or "#" in text:
        raise Unfit("must be a page's origin, such as https://chat.example.com or http://localhost:5173, without a path; or * or null")
    if not _VISIBLE.fullmatch(text) or not (parts.scheme not in ("http", "https") or _is_url_host(parts)):
        raise Unfit("must be a page's origin in ASCII (international names in their xn-- form)")
    usual = {"http": ":80", "https": ":443"}.get(parts.scheme.lower(), ":")
    return f"{parts.scheme}://{parts.netloc}".lower().removesuffix(usual)


def file(text: str, folder: Path) -> str:
    """The path of a file that can be read; a relative one starts from `folder`, where the configuration lies."""
    try:
        path = (folder / Path(text).expanduser()).resolve()
        readable = path.is_file() and os.access(path, os.R_OK)  # not opened: a pipe would wait for ever
    except (OSError, ValueError, RuntimeError):  # too long; a NUL; ~ of a user that does not exist
        readable = False
    if not readable:
        raise Unfit("is not a file that can be read: check the path (a relative one starts from the configuration's folder)")
    return str(path)


def output(text: str, folder: Path) -> str:
    """The path of a file that will be written: its folder is there and can be written in."""
    try:
        path = (folder / Path(text).expanduser()).resolve()
        writable = path.parent.is_dir() and os.access(path.parent, os.W_OK) and not path.is_dir()
    except (OSError, ValueError, RuntimeError):
        writable = False
    if not writable:
        raise Unfit("is not a file that can be written: its folder must be there (a relative path starts from the configuration's folder)")
    return str(path)


def header_name(text: str) -> str:
    """The field's name in lower case, as HTTP/2 wants it."""
    if not _TOKEN.fullmatch(text) or len(text) > _HEADER_CHARS:
        raise Unfit("is not a header's name")
    if text.lower() in RESERVED_HEADERS:
        raise Unfit("belongs to the connection or to the gateway and cannot be set: take it out")
    return text.lower()


def header_value(text: str) -> str:
    if "\r" in text or "\n" in text:
        raise Unfit("holds a line end: check how it was copied")
    if not _FIELD_VALUE.fullmatch(text) or len(text) > _HEADER_CHARS:
        raise Unfit(f"must be visible ASCII, with blanks inside only, {_HEADER_CHARS} characters at most")
    return text


def is_loopback(text: str) -> bool:
    """Whether an address to listen on is reached from this machine only. A name other than localhost may be anything."""
    if text.lower().rstrip(".") == "localhost":
        return True
    return _is_address(text) and ipaddress.ip_address(text).is_loopback


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_url_host(parts: SplitResult) -> bool:
    found = parts.hostname or ""
    return _is_address(found) if "[" in parts.netloc else bool(_HOST.fullmatch(found))


RULES: Final[dict[str, Callable[[str], str]]] = {
    "name": name,
    "model": model,
    "pattern": pattern,
    "url": url,
    "host": host,
    "origin": origin,
    "secret": secret,
    "sha256": sha256,
    "redis": redis,
}
