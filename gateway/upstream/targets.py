"""Where a request goes: the upstream's base URL and the client's path made one, whichever of the two has the `/v1`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

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
_DOTS: Final = re.compile(rb"(?:/|%2f|\\|%5c)(?:\.|%2e){1,2}(?:/|%2f|\\|%5c|$)", re.IGNORECASE)


def api_path(raw_path: bytes) -> bytes | None:
    """The path below /v1, as the client encoded it (`/chat/completions`); None where the path is none of the API's.

    `/v1/...`, `/v1/v1/...` and, for segments of the API, no `/v1` at all.
    """
    path = raw_path
    if _DOTS.search(path):  # it would leave the API's root at the upstream, with the upstream's key
        return None
    while path.startswith(b"//"):
        path = path[1:]
    prefixed = False
    while path.startswith(_V1 + b"/") or path == _V1:
        path = path[len(_V1) :] or b"/"
        prefixed = True
    while path.startswith(b"//"):
        path = path[1:]
    if prefixed or (path.split(b"/", 2)[1:2] and path.split(b"/", 2)[1] in API_SEGMENTS):
        return path
    return None


@dataclass(frozen=True, slots=True)
class Target:
    """One upstream, ready to be asked."""

    upstream: Upstream
    base: httpx.URL  # without query; its path ends without a slash

    @classmethod
    def of(cls, upstream: Upstream) -> Target:
        url = httpx.URL(upstream.base_url)
        path = url.raw_path.partition(b"?")[0].rstrip(b"/")
        while path.endswith(b"/v1/v1"):
            path = path[: -len(_V1)]
        # A bare host serves the API under /v1; any other path is where the provider put it (/v1beta/openai, /api/v1).
        return cls(upstream, url.copy_with(raw_path=path or _V1))

    def url(self, path: bytes, query: bytes = b"") -> httpx.URL:
        """`path` as `api_path` gives it."""
        raw = self.base.raw_path + (b"" if path == b"/" else path)
        return self.base.copy_with(raw_path=raw + b"?" + query if query else raw)

    @property
    def host(self) -> bytes:
        return self.base.netloc
