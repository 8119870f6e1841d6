"""One request sent with an SDK and, as its bytes go, without one; what came, in a form that can be compared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import anthropic
import httpx
import openai

from sdks.answers import Json, Outcome, Taken, chat_outcome, message, typed_outcome
from support import sse
from upstreams.servers import KEY

TIMEOUT_S = 60.0
PATHS: Final = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
TERMINAL: Final = {
    "chat": ("[DONE]",),
    "completions": ("[DONE]",),
    "responses": ("response.completed", "response.incomplete", "response.failed", "error"),
    "messages": ("message_stop", "error"),
}


@dataclass(frozen=True)
class Raw:
    """fields: path and type of each value in the events. closings: what a protocol may end with, as it came. after: events behind the first
    of them. rest: bytes behind the last blank line."""

    status: int
    fields: frozenset[tuple[str, str]]
    closings: tuple[str, ...]
    after: tuple[str, ...]
    rest: bytes


def ask(dialect: str, url: str, params: Json) -> Outcome:
    """As the dialect's own SDK gives it. An exception is an outcome too."""
    came = Taken()
    try:
        if dialect == "messages":
            with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0, timeout=TIMEOUT_S) as api:
                return _taken(dialect, came, api.messages.create(**params), params)
        with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=TIMEOUT_S) as api:
            create = {"chat": api.chat.completions, "completions": api.completions, "responses": api.responses}[dialect].create
            return _taken(dialect, came, create(**params), params)
    except (openai.APIError, anthropic.APIError) as error:
        status = getattr(error, "status_code", None)
        return _outcome(dialect, came, {"kind": type(error).__name__, "status": status, "body": error.body})


def _taken(dialect: str, came: Taken, answer: Any, params: Json) -> Outcome:
    if not params.get("stream"):
        whole = {key: value for key, value in message(answer.to_dict()).items() if key != "created"}
        return Outcome(whole, json.dumps(whole), None)
    with answer:
        for event in answer:
            came.take(event.to_dict())
    return _outcome(dialect, came, None)


def _outcome(dialect: str, came: Taken, error: Json | None) -> Outcome:
    if dialect == "completions":  # one choice is asked for, so its deltas are what chat's would be
        chunks = [{**chunk, "choices": [{**choice, "delta": {"content": choice["text"]}} for choice in chunk["choices"]]} for chunk in came]
        return chat_outcome(chunks, error)
    return chat_outcome(came, error) if dialect == "chat" else typed_outcome(map(_known, came), error)


def _known(event: Json) -> Json:
    """litellm says the model in each event; of a delta that is split, the gateway gives what it does not know to the last part alone."""
    return {key: value for key, value in event.items() if key != "model"} if event["type"].endswith("delta") else event


def ask_raw(dialect: str, url: str, params: Json) -> Raw:
    headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
    params = {**params, **params.get("extra_body", {})}
    params.pop("extra_body", None)
    answer = httpx.post(url + PATHS[dialect], json=params, headers=headers, timeout=TIMEOUT_S, trust_env=False)
    events, _, rest = sse.read(answer.content)
    if answer.headers["content-type"].split(";")[0] != "text/event-stream":
        return Raw(answer.status_code, frozenset(), (), (), answer.content)
    names = [_name(event) for event in events]
    ends = [place for place, name in enumerate(names) if name in TERMINAL[dialect]]
    after = tuple(names[ends[0] + 1 :]) if ends else ()
    fields = frozenset(field for event in events if event.data != "[DONE]" for field in _fields(json.loads(event.data)))
    return Raw(answer.status_code, fields, tuple(names[place] for place in ends), after, rest)


def _name(event: sse.Event) -> str:
    if event.data == "[DONE]":
        return event.data
    told = json.loads(event.data)
    name = told.get("type", "") if isinstance(told, dict) else ""
    assert not event.name or event.name == name, (event.name, name)
    return name


def _fields(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [field for key, item in value.items() for field in _fields(item, f"{path}.{key}")]
    if isinstance(value, list):
        return [(path, "list"), *(field for item in value for field in _fields(item, f"{path}[]"))]
    return [(path, type(value).__name__)]
