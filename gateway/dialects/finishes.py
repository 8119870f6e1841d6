"""Finish reasons: when they count, when they leave, and how far they are believed.

Some servers send a finish reason on the first chunk, or on each; strict clients then stop before the text. So one that comes alone
waits for the next event (nearly always in the same segment); one that comes before any text of its choice waits for the end, alone; and
one that comes with text after other text, as most servers end, leaves at once with it. One that text contradicts is kept: if the choice
gets no other, it was its finish reason after all.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.chunks import Chunk

# What a server writes that puts a finish reason everywhere; others say what only the end of an answer can know.
_DEFAULT: Final = b'"stop"'


class Finishes:
    """The finish reasons of a stream's choices. `expected`: how many choices the request asked for."""

    __slots__ = ("_contradicted", "_doubtful", "_expected", "_finished", "_held", "_premature", "_seen", "_spoke", "_unbelieved")

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._seen: set[int] = set()  # choices that had a chunk
        self._spoke: set[int] = set()  # choices that had content
        self._finished: set[int] = set()
        self._premature: set[int] = set()  # choices whose finish reason was followed by content: they end with the stream
        self._doubtful: set[int] = set()  # choices that finished before they had said anything
        self._unbelieved: set[int] = set()  # choices whose finish reason may be what the server writes everywhere
        self._held: dict[int, Chunk] = {}
        self._contradicted: dict[int, Chunk] = {}  # finish reasons that text followed

    @property
    def spoken(self) -> bool:
        return bool(self._spoke)

    @property
    def all_in(self) -> bool:
        return bool(self._finished) and len(self._finished) >= max(self._expected, len(self._spoke | self._finished))

    @property
    def settled(self) -> bool:
        """Whether all are in and believed: the stream may be closed without waiting for its closing line."""
        return self.all_in and not self._unbelieved

    @property
    def doubtful(self) -> bool:
        return bool(self._doubtful)

    @property
    def any_in(self) -> bool:
        """Whether a finish reason was seen: from then on each chunk needs a look."""
        return bool(self._finished) or bool(self._held)

    def spoke(self, index: int) -> None:
        self._spoke.add(index)

    def counted(self) -> None:
        """The usage of the whole answer came: it is over, whatever its finish reasons looked like."""
        if self.all_in:
            self._doubtful.clear()
            self._unbelieved.clear()

    def pass_on(self, chunk: Chunk, bare: bool) -> list[Chunk]:
        """The chunks that leave now that this one came: what was held and is settled by it, and itself or what is left of it.

        bare: it holds no content.
        """
        index = chunk.index
        first = index not in self._seen
        self._seen.add(index)
        out = self.release(None if bare else index)
        if not bare and index in self._finished:
            self._finished.discard(index)
            self._premature.add(index)
        if not chunk.finish:
            return [*out, chunk]
        early = index not in self._spoke or index in self._premature
        if index in self._finished and not early:  # said once already
            chunk.without_finish()
            return [*out, chunk]
        self._finished.add(index)
        if not early:
            if not bare:
                return [*out, chunk]
            self._held[index] = chunk
            return out
        self._judge(chunk, index, first, bare)
        self._held[index] = chunk.take_finish(bare)
        return out if bare and not (chunk.has_delta and chunk.delta) else [*out, chunk]

    def _judge(self, chunk: Chunk, index: int, first: bool, bare: bool) -> None:
        """How far a finish reason is believed that came before any text, or after one that was none. The very first chunk of an answer,
        empty and finished, is what a careless server writes; so is the one that text had contradicted before."""
        if chunk.choice.get("finish_reason") != _DEFAULT and index not in self._premature:
            return
        self._doubtful.add(index)
        if (first and bare) or index in self._premature:
            self._unbelieved.add(index)

    def release(self, speaking: int | None) -> list[Chunk]:
        """Held chunks that leave because something follows. One whose choice goes on speaking was no finish, and waits for the end."""
        out = []
        for index, held in list(self._held.items()):
            if index == speaking:
                self._premature.add(index)
                self._finished.discard(index)
                del self._held[index]
                self._contradicted[index] = held.finish_alone()
                out.append(held)
            elif index in self._spoke and index not in self._premature:
                del self._held[index]
                out.append(held)
        return out

    def release_all(self) -> list[Chunk]:
        """All that is held, at the end; for a choice that has no finish reason the one that was contradicted."""
        left = [held for index, held in self._contradicted.items() if index not in self._finished]
        out = [*left, *self._held.values()]
        self._held.clear()
        self._contradicted.clear()
        return out
