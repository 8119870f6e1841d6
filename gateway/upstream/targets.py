"""Where a request goes: the upstream's base URL and the client's path made one, whichever of the two has the `/v1`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

import httpx

from gateway.settings import Upstream

# First path segments that APIs of this family have. A client whose base_url lacks the /v1 asks for these.
API_SEGMENTS: Final = frozenset(
    {
        b"chat", b"completions", b"responses", b"messages", b"models", b"embeddings", b"files", b"audio", b"images", b"batches",
        b"moderations", b"fine_tuning", b"uploads", b"vector_stores", b"assistants", b"threads", b"containers", b"conversations",
        b"evals", b"videos", b"realtime", b"rerank", b"score", b"tokenize", b"detokenize", b"organization", b"organizations",
        b"complete", b"skills",
    }
)  # fmt: skip
_V1: Final = b"/v1"
_PREFIX: Final = re.compile(rb"(?:/v1(?=/|$))+")
# A segment of one or two dots, however it is written: encoded, as overlong UTF-8, with a path parameter behind it, before a NUL.
_DOTS: Final = re.compile(
    rb"(?:/|%2f|%c0%af|\\|%5c)(?:\.|%2e|%c0%ae|%e0%80%ae){1,2}(?:/|%2f|%c0%af|\\|%5c|;|%3b|%00|%23|%3f|$)", re.IGNORECASE
)
_DECODED_AT_MOST: Final = 4  # times, by whatever stands in front of the API
_KEPT_URLS: Final = 32  # paths without a query that are asked for again and again; making a URL costs more than sending it


def api_path(raw_path: bytes) -> bytes | None:
    """The path below /v1, as the client encoded it (`/chat/completions`); None where the path is none of the API's.

    `/v1/...`, `/v1/v1/...` and, for segments of the API, no `/v1` at all.
    """
    path = raw_path
    if (b"." in path or b"%" in path) and _climbs(path):  # it would leave the API's root at the upstream, with the upstream's key
        return None
    path = _one_slash(path)
    prefix = _PREFIX.match(path)
    prefixed = prefix is not None
    if prefix is not None:
        path = _one_slash(path[prefix.end() :] or b"/")
    if prefixed or (path.split(b"/", 2)[1:2] and path.split(b"/", 2)[1] in API_SEGMENTS):
        return path
    return None


def _one_slash(path: bytes) -> bytes:
    return b"/" + path.lstrip(b"/") if path.startswith(b"//") else path


def _climbs(path: bytes) -> bool:
    """Whether it does for somebody who decodes it once or more often."""
    for _ in range(_DECODED_AT_MOST):
        if _DOTS.search(path):
            return True
        decoded = unquote_to_bytes(path)
        if decoded == path:
            return False
        path = decoded
    return True


@dataclass(frozen=True, slots=True)
class Target:
    """One upstream, ready to be asked."""

    upstream: Upstream
    base: httpx.URL  # without query; its path ends without a slash
    keeps_keys: bool = False  # clients' keys are the gateway's own, so that none of them goes on
    _urls: dict[bytes, httpx.URL] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, upstream: Upstream, keeps_keys: bool = False) -> Target:
        url = httpx.URL(upstream.base_url)
        path = url.raw_path.partition(b"?")[0].rstrip(b"/")
        while path.endswith(b"/v1/v1"):
            path = path[: -len(_V1)]
        # A bare host serves the API under /v1; any other path is where the provider put it (/v1beta/openai, /api/v1).
        return cls(upstream, url.copy_with(raw_path=path or _V1), keeps_keys)

    def url(self, path: bytes, query: bytes = b"") -> httpx.URL:
        """`path` as `api_path` gives it."""
        kept = None if query else self._urls.get(path)
        if kept is not None:
            return kept
        raw = self.base.raw_path + (b"" if path == b"/" else path)
        url = self.base.copy_with(raw_path=raw + b"?" + query if query else raw)
        if not query and len(self._urls) < _KEPT_URLS:
            self._urls[path] = url
        return url

    @property
    def host(self) -> bytes:
        return self.base.netloc
