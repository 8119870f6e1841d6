"""What a bench asks, of whom, and how far it may go. Pure.

Bounds: a run has a number of requests, a time for each and a time in all. Beyond this machine a large run costs money, so that one is only
begun when it was said in so many words.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from gateway.wire.handed import text_of

APIS: Final = {"chat": b"/chat/completions", "responses": b"/responses", "messages": b"/messages"}
DEFAULT_PROMPT: Final = "Explain how a bicycle stays upright, step by step, in about four hundred words."
REQUESTS_AWAY: Final = 100  # of another machine, without being told so
PROMPTS_AT_MOST: Final = 10_000
PROMPTS_BYTES: Final = 64 * 2**20  # of the file


class PlanError(Exception):
    """It will not be run; the message says why, with the remedy, in one line."""


@dataclass(frozen=True, slots=True)
class Target:
    """name: as the report calls it. url: the whole URL of the API's path."""

    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Plan:
    """requests: to each target. concurrency: at once, over all targets. patience_s: for one request; deadline_s: for the run."""

    targets: tuple[Target, ...]
    api: str
    model: str
    prompts: tuple[str, ...]
    requests: int
    concurrency: int
    most_tokens: int | None
    patience_s: float
    deadline_s: float
    fields: dict[str, str]

    @property
    def path(self) -> bytes:
        return APIS[self.api]

    def body(self, number: int) -> bytes:
        """Of the request of that number: prompts are taken in turn."""
        prompt = self.prompts[number % len(self.prompts)]
        said = [{"role": "user", "content": prompt}]
        body: dict[str, object] = {"model": self.model, "stream": True}
        if self.api == "chat":
            body |= {"messages": said, "stream_options": {"include_usage": True}}
            limit = "max_completion_tokens"
        elif self.api == "responses":
            body |= {"input": said}
            limit = "max_output_tokens"
        else:
            body |= {"messages": said, "max_tokens": self.most_tokens or 4096}
            limit = "max_tokens"
        if self.most_tokens is not None:
            body[limit] = self.most_tokens
        return json.dumps(body).encode()


def url_of(base: str, api: str) -> str:
    """The API's URL under a base with or without /v1, or of the API's own. PlanError where it is none."""
    parts, host = _parts(base)
    if parts is None or not host:
        raise PlanError("a URL begins with http:// or https:// and names a host, for example http://127.0.0.1:8080/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise PlanError("the URL takes no user, query or fragment: the key comes from the environment (see --help)")
    path = parts.path.rstrip("/")
    for known in APIS.values():  # the whole URL, as documentation shows it
        path = path.removesuffix(known.decode())
    path = "/v1" if path in ("", "/v1/v1") else quote(path, safe="/%:@!$&'()*+,;=~")
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{path}{APIS[api].decode()}"


def _parts(base: str) -> tuple[SplitResult | None, str]:
    """The URL, None where it is none; and its host as it is written in one."""
    if not base.isprintable():
        return None, ""
    try:
        parts = urlsplit(base.strip())
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or parts.port == 0 or " " in host:
            return None, ""
        if ":" in host:
            return parts, f"[{ipaddress.IPv6Address(host).compressed}]"
        return parts, host.encode("idna").decode()
    except ValueError:  # UnicodeError is one
        return None, ""


def check(plan: Plan, *, sure: bool) -> None:
    """PlanError for a run that could run away."""
    if sure or plan.requests <= REQUESTS_AWAY:
        return
    for target in plan.targets:
        host = urlsplit(target.url).hostname or ""
        if not _is_here(host):
            total = plan.requests * len(plan.targets)
            raise PlanError(
                f"{total} requests to {host} can cost money: take fewer than {REQUESTS_AWAY + 1} (-n), or say --yes to all of them"
            )


def prompts_of(data: bytes, source: str) -> tuple[str, ...]:
    """One prompt a line; or, where a line is a JSON object, its `prompt`. PlanError names the line."""
    found = []
    if len(data) > PROMPTS_BYTES:
        raise PlanError(f"{source}: is larger than {PROMPTS_BYTES // 2**20} MiB")
    try:
        text = text_of(data)
    except ValueError:
        raise PlanError(f"{source}: is not UTF-8 text") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        prompt: object = line
        if line.lstrip().startswith("{"):
            try:
                prompt = json.loads(line)["prompt"]
            except (ValueError, KeyError, RecursionError):
                prompt = None
            if not isinstance(prompt, str):
                raise PlanError(f'{source}:{number}: a line is a prompt, or an object with a "prompt"')
        found.append(str(prompt).rstrip("\r"))
    if not found:
        raise PlanError(f"{source}: holds no prompt: one a line")
    if len(found) > PROMPTS_AT_MOST:
        raise PlanError(f"{source}: holds more than {PROMPTS_AT_MOST} prompts")
    return tuple(found)


def fields_of(key: str | None, api: str, given: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The header fields of each request. PlanError, without showing it, for a key that no field can carry."""
    fields = dict(given)
    if key is None or not (key := key.strip()):
        return fields
    if not (key.isascii() and key.isprintable()):
        raise PlanError("the key in the environment holds characters that no header field can: was it copied whole, and nothing else?")
    if api == "messages":
        fields = {"x-api-key": key, "anthropic-version": "2023-06-01"} | fields
    return {"authorization": f"Bearer {key}"} | fields


def shown(targets: Sequence[Target]) -> str:
    return ", ".join(f"{target.name} = {target.url}" for target in targets)


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
