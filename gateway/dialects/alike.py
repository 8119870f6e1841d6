"""The fast way: events that differ from one before them only in their text are understood without parsing them, many at a time.

A server writes the events of one stream from one template: the same bytes, then the text, then the same bytes. Once a delta has been parsed
and its text found in it, following events with the same bytes around a string say the same thing, so their texts can be cut out without a
parser, and the bytes of a whole burst stay in one piece. Nothing is guessed: what stands in the place of the text must be the inside of
exactly one JSON string on one line, else the event is parsed; so is any with other bytes around.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from gateway.dialects.base import Skimmed
from gateway.dialects.text import joins, weigh
from gateway.piece import CUT_FROM_TOKENS, Kind, Piece, Run, Single

_TRIES: Final = 16  # templates learned in vain before it is given up: the events of some servers differ in more than the text (obfuscation)
_BLANK: Final = b"\n\n"
# Characters of a text that need no second look: printable ASCII but for quote and backslash, and for what tags and code begin with.
_AS_IT_STANDS: Final = rb" !#-;=-\[\]-_a-~"
_PLAIN: Final = re.compile(rb"[%b]+" % _AS_IT_STANDS)
_PLAIN_BYTES: Final = bytes(byte for byte in range(0x80) if _PLAIN.fullmatch(bytes([byte])))
_FIRST_WIDE: Final = "\x80"
_FEW_BYTES: Final = 64  # a text of one event is seldom longer: a read with so much more than a template holds several
_inside: Final = msgspec.json.Decoder(str).decode
_TOKENS_A_BYTE: Final = weigh("a")  # of ASCII

# Told of a text with a tag's or code's beginning, and of the text before it: its kind, and whether what follows can be taken unseen.
Watch = Callable[[str, str], tuple[Kind, bool]]


class Alike:
    """What the events of one stream have in common. All it gives is None, or empty, where the events must be parsed."""

    __slots__ = ("_after", "_before", "_failures", "_glue", "_hit", "_own")

    def __init__(self) -> None:
        self._before: bytes | None = None
        self._after = self._glue = b""
        self._own: tuple[bytes, bytes] | None = None  # before and after as they leave, where that is not how they came
        self._failures = 0
        self._hit = False

    def learn(self, raw: bytes, member: bytes, text: str, own: bytes) -> None:
        """The event `raw` was parsed and its `member`, at one place only, is `text`; `own`: the event as it leaves."""
        if self._failures >= _TRIES:
            return
        self._failures = 0 if self._hit else self._failures + 1
        self._hit = False
        around = _around(raw, member, text)
        leaving = around if own == raw else _around(own, member, text)
        if around is None or leaving is None or raw.count(_BLANK) != 1:
            return  # written with blanks, escapes or beyond ASCII: parsing is sure
        self._before, self._after = around
        self._glue = self._after + self._before
        self._own = None if own == raw else leaving

    def forget(self) -> None:
        """Something else came: what was noted may no longer hold."""
        self._before = None

    def text_in(self, raw: bytes) -> str | None:
        """The text of one event as it came."""
        before = self._before
        if before is None or not self._is_around(raw, before):
            return None
        text = _string(raw[len(before) : len(raw) - len(self._after)])
        self._hit |= bool(text)
        return text

    def _is_around(self, raw: bytes, before: bytes) -> bool:
        return len(raw) >= len(self._glue) and raw.startswith(before) and raw.endswith(self._after)

    def as_it_leaves(self, raw: bytes) -> bytes:
        """An event that is alike."""
        if self._own is None or self._before is None:
            return raw
        return self._own[0] + raw[len(self._before) : len(raw) - len(self._after)] + self._own[1]

    def skim(self, whole: bytes, at: int, kind: Kind, tail: str, single: Single, watch: Watch | None) -> Skimmed | None:
        """All events from `at` on that are alike; `whole` ends with an event's end.

        kind: of their texts. tail: the text before. single: makes an event a piece that can be cut. watch: None where tags mean nothing.
        """
        before = self._before
        if before is None or not whole.startswith(before, at):
            return None
        self._hit = True
        if 0 <= len(whole) - at - len(self._glue) < _FEW_BYTES and whole.endswith(self._after) and tail[-1:] < _FIRST_WIDE:
            text = whole[at + len(before) : len(whole) - len(self._after)]
            if _PLAIN.fullmatch(text) is not None:  # one event, as steady streams bring them
                weight = len(text) * _TOKENS_A_BYTE
                raw = self.as_it_leaves(whole[at:] if at else whole)
                piece = Piece(kind, weight, raw) if weight <= CUT_FROM_TOKENS else single(kind, weight, raw)
                return Skimmed([piece], len(whole), 1, text.decode("ascii"))
        texts = self._texts(whole, at)
        return _Stretch(texts, tail, watch, kind).skimmed(self, whole, at, single) if texts else None

    def _texts(self, whole: bytes, at: int) -> list[bytes]:
        """What stands in the texts' place in the events from `at` on that are alike. A line break in one is for `_Stretch` to see."""
        before, after = self._before or b"", self._after
        ending = after[: -len(_BLANK)]
        if at:
            whole = whole[at:]
        texts: list[bytes] = []
        start, follows = len(before), len(_BLANK) + len(before)
        while (line_end := whole.find(b"\n", start)) >= 0:  # events of one line each, as nearly all are
            end = line_end - len(ending)
            texts.append(whole[start:end] if end > start else b"")
            start = line_end + follows
        # One comparison for all: put together again they are what came. Else the first that is not alike is looked for.
        if self._is_around(whole, before) and whole[len(before) : len(whole) - len(after)] == self._glue.join(texts):
            return texts
        texts.clear()
        for event in whole.split(_BLANK)[:-1]:
            if not (event.startswith(before) and event.endswith(ending)) or len(event) < len(before) + len(ending):
                break
            texts.append(event[len(before) : len(event) - len(ending)])
        return texts

    def leaving(self, whole: bytes, at: int, texts: list[bytes]) -> tuple[bytes, int, int]:
        """The events of these texts as they leave; the bytes of each that are not its text; where they end in `whole`."""
        stop = at + len(texts) * len(self._glue) + sum(map(len, texts))
        if self._own is not None:
            before, after = self._own
            return before + (after + before).join(texts) + after, len(before) + len(after), stop
        return whole if not at and stop == len(whole) else whole[at:stop], len(self._glue), stop


class _Stretch:
    """The texts of events that are alike, looked through: those that can be taken stay, `last` is one more of another kind.

    joined: which of them go on with the grapheme before.
    """

    __slots__ = ("_kind", "_odd", "_tail", "_texts", "_watch", "_weights", "joined", "last")

    def __init__(self, texts: list[bytes], tail: str, watch: Watch | None, kind: Kind) -> None:
        self._texts, self._tail, self._watch, self._kind = texts, tail, watch, kind
        self._odd: dict[int, str] = {}  # texts that needed a look
        self.joined: list[int] = []
        self.last: Kind | None = None
        self._weights = [len(text) * _TOKENS_A_BYTE for text in texts]
        if not all(texts):
            del texts[texts.index(b"") :]  # an event that says nothing
        odd = b"\n".join(texts).translate(None, _PLAIN_BYTES)  # of each text what needs a look, and what stands between texts
        if odd.count(b"\n") >= len(texts) > 0:  # a line break within one: they are no strings
            texts.clear()
        elif tail[-1:] >= _FIRST_WIDE or len(odd) >= len(texts):
            self._look(odd.split(b"\n"))
            self._join()

    def skimmed(self, alike: Alike, whole: bytes, at: int, single: Single) -> Skimmed | None:
        texts, count = self._texts, len(self._texts)
        if not count:
            return None
        raw, around, stop = alike.leaving(whole, at, texts)
        tail = self._text(count - 1)
        offsets, sums = [0], [0.0]
        size, tokens = 0, 0.0
        for text, weight in zip(texts, self._weights, strict=False):
            size += len(text) + around
            offsets.append(size)
            tokens += weight
            sums.append(tokens)
        last = None
        if self.last is not None:
            weight = self._weights[count - 1]
            raw_last = raw[offsets[-2] :]
            last = Piece(self.last, weight, raw_last) if weight <= CUT_FROM_TOKENS else single(self.last, weight, raw_last)
            last.joined = count - 1 in self.joined
            count -= 1
        borders = [border for border in self.joined if 0 < border < count]
        for border in reversed(borders):  # none before an event that goes on with a grapheme
            del offsets[border], sums[border]
        pieces: list[Piece] = []
        if count:
            end = count - len(borders)
            pieces.append(Run(self._kind, raw, offsets, sums, 0, end, single, self.joined[:1] == [0]))
        if last is not None:
            pieces.append(last)
        return Skimmed(pieces, stop, len(texts), tail)

    def _text(self, index: int) -> str:
        return self._odd.get(index) or self._texts[index].decode("ascii")

    def _before(self, index: int) -> str:
        return self._text(index - 1) if index else self._tail

    def _look(self, unplain: list[bytes]) -> None:
        """Decodes what is not plain, weighs it, and shortens the texts where they cannot be taken. `unplain`: what is not, of each."""
        texts, odd = self._texts, self._odd
        for index, rest in enumerate(unplain):
            if not rest:
                continue
            text = _string(texts[index])
            if text is None:
                del texts[index:]
                return
            odd[index] = text
            self._weights[index] = weigh(text)
            if self._watch is not None and ("<" in text or "`" in text):
                kind, unseen = self._watch(text, self._before(index))
                if kind is not self._kind or not unseen:
                    self.last = kind
                    del texts[index + 1 :]
                    return

    def _join(self) -> None:
        texts, odd = self._texts, self._odd
        if self._tail[-1:] >= _FIRST_WIDE and texts and 0 not in odd and joins(self._tail, self._text(0)):
            self.joined.append(0)
        for index, text in odd.items():
            if joins(self._before(index), text):
                self.joined.append(index)
            after = index + 1
            if text[-1] >= _FIRST_WIDE and after < len(texts) and after not in odd and joins(text, self._text(after)):
                self.joined.append(after)


def _string(inside: bytes) -> str | None:
    """The text between the quotes of a JSON string; None where it is none, or empty."""
    if _PLAIN.fullmatch(inside) is not None:
        return inside.decode("ascii")
    try:
        return _inside(b'"' + inside + b'"') or None
    except msgspec.DecodeError:
        return None


def _around(raw: bytes, member: bytes, text: str) -> tuple[bytes, bytes] | None:
    """What stands before and after the text in an event; None where it does not stand there as it is, once."""
    opening = b'"' + member + b'":"'
    at = raw.find(opening)
    start = at + len(opening)
    end = start + len(text)
    if at < 0 or raw.find(opening, start) >= 0 or raw[start : end + 1] != text.encode("utf-8", "surrogatepass") + b'"':
        return None
    return raw[:start], raw[end:]
