"""Where a client stands in an answer's text, counted as JavaScript counts: in UTF-16 units of content.

Owns what counts as content in the delivered events of each dialect, and how an event looks from a place inside its content on. It must not
know of streams or of time. Invariants: the text before a place and the text after it concatenate to the original; no half of a surrogate
pair is made (a place inside a pair counts as before it); what stays keeps its bytes.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.chunks import CHAT_TEXTS
from gateway.dialects.text import borders_of
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event, render

_FAULTS: Final = (ValueError, TypeError, LookupError, AttributeError)
_BEFORE_CONTENT: Final = frozenset({"role", *(name for name, _ in CHAT_TEXTS[: [name for name, _ in CHAT_TEXTS].index("content")])})
# A member that any event with content has: the others need not be parsed.
_SIGN: Final = {"chat": b'"content"', "completions": b'"text"', "responses": b"output_text.delta", "messages": b'"text_delta"'}


def units(text: str) -> int:
    """Its length in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def index_at(text: str, count: int) -> int:
    """The index of the character that begins after `count` units, or before it if that is inside a pair."""
    if text.isascii():
        return min(count, len(text))
    for index, character in enumerate(text):
        count -= 2 if character > "\uffff" else 1
        if count < 0:
            return index
    return len(text)


def content_of(dialect: str, data: bytes) -> str:
    """The text in an event's data that a cursor counts; empty where there is none."""
    sign = _SIGN.get(dialect)
    if sign is None or sign not in data:
        return ""
    try:
        found = _found(dialect, jsontext.value(data))
    except _FAULTS:
        return ""
    return found if isinstance(found, str) else ""


def rest_of(dialect: str, event: Event, count: int) -> bytes:
    """The event from a place inside its content on: without what came before the first `count` units of it."""
    text = content_of(dialect, event.data)
    start = index_at(text, count)
    top = jsontext.members(event.data)
    if dialect in ("chat", "completions"):
        choice = jsontext.members(jsontext.elements(top["choices"])[0])
        if dialect == "chat":
            delta = jsontext.members(choice["delta"])
            kept = {key: raw for key, raw in delta.items() if key not in _BEFORE_CONTENT}
            choice["delta"] = jsontext.join({**kept, "content": jsontext.quote(text[start:])})
        else:
            choice["text"] = jsontext.quote(text[start:])
        if choice.get("logprobs", b"null") != b"null":
            choice["logprobs"] = _scores(choice["logprobs"], text, start)
        top["choices"] = jsontext.array([jsontext.join(choice)])
    elif dialect == "responses":
        top["delta"] = jsontext.quote(text[start:])
        if top.get("logprobs", b"null") not in (b"null", b"[]"):
            top["logprobs"] = _entries(top["logprobs"], text, start) or b"[]"
    else:
        delta = jsontext.members(top["delta"])
        top["delta"] = jsontext.join({**delta, "text": jsontext.quote(text[start:])})
    return render(jsontext.join(top), event.name)


def _found(dialect: str, top: Any) -> Any:
    if dialect == "chat":
        return top["choices"][0]["delta"].get("content")
    if dialect == "completions":
        return top["choices"][0].get("text")
    if dialect == "responses":
        return top["delta"] if top.get("type") == "response.output_text.delta" else ""
    return top["delta"]["text"] if top.get("type") == "content_block_delta" and top["delta"].get("type") == "text_delta" else ""


def _scores(raw: bytes, text: str, start: int) -> bytes:
    """Log-probabilities of the tokens from `start` on; null where a token begins before it, since each arrives once, with its token."""
    lists: Members = jsontext.members(raw)
    flat = lists.get("tokens")  # of legacy completions, whose other lists go with it
    for key, listed in lists.items():
        if not listed.startswith(b"["):
            continue
        tokens = listed if flat is None else flat
        cut = _entries(listed, text, start, tokens) if key != "refusal" else b"null"
        if cut is None:
            return b"null"
        lists[key] = cut
    return jsontext.join(lists)


def _entries(raw: bytes, text: str, start: int, tokens: bytes | None = None) -> bytes | None:
    said = [entry.get("token") if isinstance(entry, dict) else entry for entry in jsontext.value(tokens or raw)]
    borders = borders_of(text, said)
    if borders is None or (start and start not in borders):
        return None
    first = borders.index(start) + 1 if start else 0
    return jsontext.array(jsontext.elements(raw)[first:])
