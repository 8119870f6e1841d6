"""The events of a second answer as the continuation of a first that was cut: what was there is not repeated, what differs is aligned.

A seam takes the new upstream's events and gives those that the client gets; the stream's dialect goes on as if its own upstream had.
Invariant: text that was delivered is delivered once. Where the new answer repeats its end (or all of it) that is found by comparing.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.trails import Trail
from gateway.wire import jsontext
from gateway.wire.jsontext import Members
from gateway.wire.sse import Event, render

OVERLAP_CHARS: Final = 12  # shorter repetitions are taken for chance: "ha ha", a row of dashes; but all of a short answer is a repetition
LOOKED_AT_CHARS: Final = 20_000  # of the end of what was delivered, in which a repetition is looked for
_REASONING: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_NULL: Final = b"null"


class Overlap:
    """`feed(text) -> text` without what repeats the end of `before`; `rest()` at the end. Text waits while it may be a repetition."""

    def __init__(self, before: str, trimmed: int = 0) -> None:
        """`trimmed`: blanks at the end of `before` that the new answer was not told of, and so may bring again."""
        self._all = before
        self._before = before[-LOOKED_AT_CHARS:]
        self._blanks = before[len(before) - trimmed :] if trimmed else ""
        self._told: int | None = 0 if before else None  # how much of `before` was said again from its beginning; None: another text
        self._waiting: str | None = ""  # where it is another text

    def feed(self, text: str) -> str:
        if self._waiting is None:
            return text
        if self._told is None:
            self._waiting += text
        else:
            length = min(len(text), len(self._all) - self._told)
            if self._all.startswith(text[:length], self._told):
                self._told += length
                if self._told < len(self._all):
                    return ""
                self._told, self._waiting = None, None
                return text[length:]
            self._waiting, self._told = self._all[: self._told] + text, None
        return "" if self._undecided() else self._decide()

    def rest(self) -> str:
        if self._told is not None:
            self._waiting, self._told = self._all[: self._told], None
        return "" if not self._waiting else self._decide()

    def _undecided(self) -> bool:
        """Whether what waits goes on to be found in what was delivered, short of its end."""
        waiting, before = self._waiting or "", self._before
        at = before.find(waiting)
        return 0 <= at < len(before) - len(waiting) or (at >= 0 and len(waiting) < OVERLAP_CHARS)

    def _decide(self) -> str:
        waiting, before = self._waiting or "", self._before
        self._waiting = None
        for length in range(min(len(waiting), len(before)), 0, -1):
            if before.endswith(waiting[:length]):
                if length >= OVERLAP_CHARS and not _by_rote(waiting[:length]):
                    return waiting[length:]
                break
        for length in range(min(len(self._blanks), len(waiting)), 0, -1):
            if self._blanks.endswith(waiting[:length]):
                return waiting[length:]
        return waiting


def _by_rote(text: str) -> bool:
    """Whether it is one short unit over and over: a rule of dashes, an indentation, zeros. That its end comes again proves nothing."""
    return any(text[unit:] == text[:-unit] for unit in range(1, min(OVERLAP_CHARS, len(text) // 2 + 1)))


class Seam:
    """The same stream, from where it was: nothing to do.

    What waits for more to compare with leaves with whatever ends the text. If this upstream dies too it does not: most likely it was a
    repetition, and whoever goes on says it again.
    """

    def take(self, event: Event) -> list[Event]:
        return [event]


class AfterNumber(Seam):
    """Responses by `starting_after`: what has a number that was there already is dropped, should it come again."""

    def __init__(self, last: int) -> None:
        self._last = last

    def take(self, event: Event) -> list[Event]:
        try:
            number = jsontext.value(event.data).get("sequence_number")
        except (ValueError, AttributeError):
            return [event]
        return [] if isinstance(number, int) and number <= self._last else [event]


class OfChoices(Seam):
    """Chat and legacy completions."""

    def __init__(self, trail: Trail) -> None:
        self._overlap = Overlap(trail.text)
        self._first = trail.first
        self._last: tuple[Members, Members] | None = None  # a chunk to carry what waited

    def take(self, event: Event) -> list[Event]:
        try:
            top = jsontext.members(event.data)
            choices = jsontext.elements(top.get("choices", b"[]"))
            choice = jsontext.members(choices[0]) if choices else None
        except ValueError:  # the end, or an event that was cut
            return [*self.rest(), event] if event.data.strip() == b"[DONE]" else [event]
        if top.get("error", _NULL) != _NULL:
            return [event]
        top.update(self._first)
        if choice is None:
            return [*self.rest(), _event(top)]
        chat = "delta" in choice
        delta = jsontext.members(choice["delta"]) if choice.get("delta", b"").startswith(b"{") else {}
        for name in ["role", *_REASONING]:
            delta.pop(name, None)
        member = delta if chat else choice
        name = "content" if chat else "text"
        said = str(jsontext.value(member.pop(name))) if member.get(name, b"").startswith(b'"') else ""
        bare = {**choice, "delta": b"{}"} if chat else dict(choice)
        self._last = (top, {**bare, "finish_reason": _NULL})
        text = self._overlap.feed(said) if said else ""
        more = choice.get("finish_reason", _NULL) != _NULL or any(value not in (_NULL, b'""', b"[]") for value in delta.values() if chat)
        out = self.rest() if more and not text else []
        if text:
            member[name] = jsontext.quote(text)
        elif not more:
            return out
        if chat:
            choice["delta"] = jsontext.join(delta)
        elif not text:
            choice["text"] = b'""'
        return [*out, _chunk(top, choice)]

    def rest(self) -> list[Event]:
        text = self._overlap.rest()
        if not text or self._last is None:
            return []
        top, choice = self._last
        said = jsontext.quote(text)
        return [_chunk(top, {**choice, "delta": jsontext.join({"content": said})} if "delta" in choice else {**choice, "text": said})]


class OfMessages(Seam):
    """Messages: the new answer's first text goes on in the block that is open; blocks behind it get the numbers that follow."""

    def __init__(self, trail: Trail) -> None:
        text = trail.text
        self._overlap = Overlap(text, len(text) - len(text.rstrip()))
        self._open = trail.block
        self._joined: int | None = None  # the new answer's number of the block that goes on
        self._dropped: set[int] = set()
        self._blocks = 0  # that opened behind it
        self._numbers: dict[int, int] = {}
        self._closed = False

    def take(self, event: Event) -> list[Event]:
        try:
            top = jsontext.value(event.data)
        except ValueError:
            return [event]
        if not isinstance(top, dict):
            return [event]
        kind, index = top.get("type"), top.get("index")
        if kind == "message_start":
            return []
        if not isinstance(index, int):
            return [*self._close(), event] if kind in ("message_delta", "message_stop") else [event]
        if kind == "content_block_start":
            return self._start(top, index, event)
        if index in self._dropped:
            return []
        if index == self._joined:
            return self._go_on(top, event)
        return [_renumbered(event, self._numbers.get(index, index))]

    def _start(self, top: dict[str, Any], index: int, event: Event) -> list[Event]:
        block = (top.get("content_block") or {}).get("type")
        if block in ("thinking", "redacted_thinking"):  # behind text that was delivered it has no place
            self._dropped.add(index)
            return []
        if block == "text" and self._joined is None and not self._closed:
            self._joined = index
            return []
        self._blocks += 1
        self._numbers[index] = self._open + self._blocks
        return [*self._close(), _renumbered(event, self._numbers[index])]

    def _go_on(self, top: dict[str, Any], event: Event) -> list[Event]:
        delta = top.get("delta") or {}
        if top.get("type") == "content_block_stop":
            return self._close()
        if delta.get("type") != "text_delta":
            return [*self.rest(), _renumbered(event, self._open)]
        text = self._overlap.feed(str(delta.get("text", "")))
        return [self._delta(text)] if text else []

    def _close(self) -> list[Event]:
        """The end of the block that goes on, once."""
        if self._closed:
            return []
        out = self.rest()
        self._closed = True
        stop = jsontext.dump({"type": "content_block_stop", "index": self._open})
        return [*out, Event(b"content_block_stop", stop, render(stop, b"content_block_stop"))]

    def rest(self) -> list[Event]:
        text = self._overlap.rest()
        return [self._delta(text)] if text else []

    def _delta(self, text: str) -> Event:
        data = b'{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%b}}' % (self._open, jsontext.quote(text))
        return Event(b"content_block_delta", data, render(data, b"content_block_delta"))


def _event(top: Members) -> Event:
    data = jsontext.join(top)
    return Event(None, data, render(data))


def _chunk(top: Members, choice: Members) -> Event:
    return _event({**top, "choices": b"[" + jsontext.join(choice) + b"]"})


def _renumbered(event: Event, index: int) -> Event:
    top = jsontext.members(event.data)
    top["index"] = b"%d" % index
    data = jsontext.join(top)
    return Event(event.name, data, render(data, event.name))
