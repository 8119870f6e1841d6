"""One upstream, asked for its models with its own key: what came of it, in a sentence that says what to do.

Invariant: a key is sent to its upstream only, and stands in no sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import msgspec

from gateway.checking.keys import mismatch, owner_of
from gateway.errors import Failure
from gateway.relay.failures import before_the_answer, in_the_answer
from gateway.settings import Upstream
from gateway.upstream.proxies import Proxies, ProxyProblem
from gateway.upstream.targets import Target
from gateway.wire import headers

_BODY_BYTES: Final = 16 * 2**20  # OpenRouter's list has a megabyte
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """usable: requests of clients can succeed. text: why, or why not. remarks: what else is worth a look."""

    usable: bool
    text: str
    remarks: tuple[str, ...] = ()


async def ask(
    upstream: Upstream, key: str | None, transport: httpx.AsyncBaseTransport, patience_s: float, environ: Mapping[str, str] | None = None
) -> Finding:
    """`key`: one of the upstream's, None where clients bring theirs. `patience_s`: for the whole answer, beside connecting. `environ`:
    which the transport has its proxies from."""
    wrong = mismatch(key, upstream.base_url) if key is not None else None
    if wrong is not None:
        return Finding(False, wrong)
    target = Target.of(upstream)
    own = {name.lower(): value for name, value in upstream.headers}
    fields = {"host": target.host.decode("latin-1"), "accept": "application/json", "accept-encoding": "identity", **own}
    if key is not None and "authorization" not in own:
        fields["authorization"] = f"Bearer {key}"
    timeouts = {"connect": patience_s, "read": patience_s, "write": patience_s, "pool": patience_s}
    request = httpx.Request("GET", target.url(b"/models"), headers=fields, extensions={"timeout": timeouts})
    try:
        async with asyncio.timeout(2 * patience_s):
            response = await transport.handle_async_request(request)
            try:
                body = await _body(response)
            finally:
                await response.aclose()
    except TimeoutError:
        return Finding(
            False, f"it did not answer within {2 * patience_s:g} s: check that base_url is an API, and any proxy or firewall between"
        )
    except httpx.RequestError as error:
        failure = in_the_answer(error) if isinstance(error, httpx.ReadError) else before_the_answer(error)
        return Finding(False, _said(failure), _proxy(target.base, environ or {}))
    return _read(upstream, key is not None or "x-api-key" in own or "authorization" in own, response, body)


async def _body(response: httpx.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # what an async transport gives
    async for part in response.stream:
        size += len(part)
        if size > _BODY_BYTES:
            break
        parts.append(part)
    return b"".join(parts)


def _read(upstream: Upstream, keyed: bool, response: httpx.Response, body: bytes) -> Finding:
    status = response.status_code
    if status == 200:
        return _listed(upstream, response, body)
    if status in (401, 403):
        if not keyed:
            return Finding(True, f"it answers ({status}, as it wants a key); it has no api_key here, so clients send their own")
        hint = _key_hint(upstream)
        return Finding(False, f"it refuses the key ({status}): check that the key is whole, still valid, and this provider's{hint}")
    if status == 407:
        return Finding(False, "a proxy in between wants a password (407): put it into the URL of HTTPS_PROXY, or name the host in NO_PROXY")
    if status == 429:
        return Finding(True, "it answers, but the key's limit or credit is used up for now (429)")
    if 300 <= status < 400:
        return Finding(False, f"it sends the gateway elsewhere ({status}): set base_url to the address to which it redirects")
    if status == 404:
        what = " (a web page)" if _is_page(response) else ""
        return Finding(False, f"there is no list of models at {_path(upstream)}{what} (404): check the path in base_url, most often /v1")
    if status >= 500:
        return Finding(False, f"it answers {status}, so it has trouble of its own: ask again later, or look at its status page")
    return Finding(False, f"it answers {status} to GET {_path(upstream)}: check base_url")


def _listed(upstream: Upstream, response: httpx.Response, body: bytes) -> Finding:
    if _is_page(response):
        return Finding(False, "a web page answers where an API should: check base_url, and whether a login page or a proxy is in between")
    try:
        listed: Any = msgspec.json.decode(body)["data"]
        names = {entry["id"] for entry in listed}
    except (msgspec.MsgspecError, KeyError, TypeError):
        return Finding(True, "it answers, but not with a list of models: requests may work all the same")
    missing = [name for name in upstream.models if name not in names]
    remarks = (f"models: it does not list {', '.join(missing[:_SHOWN])}",) if missing else ()
    return Finding(True, f"it answers and lists {len(names)} model{'' if len(names) == 1 else 's'}", remarks)


def _proxy(url: httpx.URL, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A word on the proxy in between, which may be what is wrong. Of its URL only the host: the rest may be a password."""
    try:
        found = Proxies(environ).find(url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
    except ProxyProblem:
        return ()  # the failure says so itself
    if found is None:
        return ()
    place = httpx.URL(found)
    port = f":{place.port}" if place.port else ""
    return (f"by the proxy {place.host}{port}: HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names it, and NO_PROXY can leave hosts out",)


def _key_hint(upstream: Upstream) -> str:
    if owner_of(upstream.base_url) == "Anthropic" and upstream.keys:
        return "; Anthropic takes API keys as `headers: {x-api-key: ${NAME}, anthropic-version: 2023-06-01}` in place of api_key"
    return ""


def _is_page(response: httpx.Response) -> bool:
    return headers.media_type(response.headers.raw) in (b"text/html", b"application/xhtml+xml")


def _path(upstream: Upstream) -> str:
    return Target.of(upstream).url(b"/models").raw_path.decode("latin-1")


def _said(failure: Failure) -> str:
    said = failure.message.rstrip(".")
    return said[:1].lower() + said[1:]
