"""Finish reasons: when they count, and when they leave.

Some servers send a finish reason on the first chunk, or on each; strict clients then stop before the text. So one that comes alone
waits for the next event (nearly always in the same segment); one that comes before any text of its choice waits for the end, alone; and
one that comes with text after other text, as most servers end, leaves at once with it.
"""

from __future__ import annotations

from gateway.dialects.chunks import Chunk


class Finishes:
    """The finish reasons of a stream's choices. `expected`: how many choices the request asked for."""

    __slots__ = ("_doubtful", "_expected", "_finished", "_held", "_premature", "_spoke")

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._spoke: set[int] = set()  # choices that had content
        self._finished: set[int] = set()
        self._premature: set[int] = set()  # choices whose finish reason was followed by content: they end with the stream
        self._doubtful: set[int] = set()  # choices whose finish reason came too soon to be believed
        self._held: dict[int, Chunk] = {}

    @property
    def all_in(self) -> bool:
        return bool(self._finished) and len(self._finished) >= max(self._expected, len(self._spoke | self._finished))

    @property
    def settled(self) -> bool:
        """Whether all are in and none is doubtful: the stream may be closed without waiting for its closing line."""
        return self.all_in and not self._doubtful

    @property
    def any_in(self) -> bool:
        """Whether a finish reason was seen: from then on each chunk needs a look."""
        return bool(self._finished) or bool(self._held)

    def spoke(self, index: int) -> None:
        self._spoke.add(index)

    def pass_on(self, chunk: Chunk, bare: bool) -> list[Chunk]:
        """The chunks that leave now that this one came: what was held and is settled by it, and itself or what is left of it.

        bare: it holds no content.
        """
        index = chunk.index
        out = self.release(None if bare else index)
        if not bare and index in self._finished:
            self._finished.discard(index)
            self._premature.add(index)
        if not chunk.finish:
            return [*out, chunk]
        doubtful = index not in self._spoke or index in self._premature
        if index in self._finished and not doubtful:  # said once already
            chunk.without_finish()
            return [*out, chunk]
        self._finished.add(index)
        if doubtful:
            self._doubtful.add(index)
        if not doubtful:
            if not bare:
                return [*out, chunk]
            self._held[index] = chunk
            return out
        self._held[index] = chunk.take_finish(bare)
        return out if bare and not (chunk.has_delta and chunk.delta) else [*out, chunk]

    def release(self, speaking: int | None) -> list[Chunk]:
        """Held chunks that leave because something follows. One whose choice goes on speaking was no finish and leaves without."""
        out = []
        for index, held in list(self._held.items()):
            if index == speaking:
                self._premature.add(index)
                self._finished.discard(index)
                del self._held[index]
                if index in self._spoke:
                    held.without_finish()
                    out.append(held)
            elif index in self._spoke and index not in self._premature:
                del self._held[index]
                out.append(held)
        return out

    def release_all(self) -> list[Chunk]:
        out = list(self._held.values())
        self._held.clear()
        return out
