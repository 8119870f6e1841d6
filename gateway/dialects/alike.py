"""The fast way: an event that differs from the one before only in its text is understood without parsing it.

A server writes the events of one stream from one template: the same bytes, then the text, then the same bytes. Once a delta has been
parsed and its text found in it, a following event with the same bytes around plain text says the same thing, so its text can be cut out
without a parser. Nothing is guessed: text with a quote, an escape, a control character or anything beyond ASCII is refused here and parsed;
so is any event with other bytes before or after it.
"""

from __future__ import annotations

from typing import Final

_TRIES: Final = 16  # templates learned in vain before it is given up: the events of some servers differ in more than the text (obfuscation)


class Alike:
    """`text_in(data)`: the text, or None if the event must be parsed."""

    __slots__ = ("_after", "_before", "_failures", "_hit")

    def __init__(self) -> None:
        self._before: bytes | None = None
        self._after = b""
        self._failures = 0
        self._hit = False

    def text_in(self, data: bytes) -> str | None:
        before = self._before
        if before is None or not data.startswith(before) or not data.endswith(self._after):
            return None
        raw = data[len(before) : len(data) - len(self._after)]
        if not raw or b'"' in raw or b"\\" in raw or not raw.isascii():
            return None
        text = raw.decode("ascii")
        if not text.isprintable():
            return None
        self._hit = True
        return text

    def learn(self, data: bytes, member: bytes, text: str) -> None:
        """`data` was parsed and its `member`, at one place only, is `text`."""
        if self._failures >= _TRIES:
            return
        self._failures = 0 if self._hit else self._failures + 1
        self._hit = False
        opening = b'"' + member + b'":"'
        at = data.find(opening)
        start = at + len(opening)
        end = start + len(text)
        if at < 0 or data.find(opening, start) >= 0 or data[start : end + 1] != text.encode("utf-8", "surrogatepass") + b'"':
            return  # written with blanks, escapes or beyond ASCII: parsing is sure
        self._before, self._after = data[:start], data[end:]

    def forget(self) -> None:
        """Something else came: what was noted may no longer hold."""
        self._before = None
