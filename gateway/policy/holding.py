"""What controls do to the release of pieces: three shells around a pacer, each for one control.

Owns bounds on what is held of reasoning, pages, and the size of frames. They must not know why a pacer releases what it does. Invariants
of all: order is kept, over all kinds; nothing is lost or doubled; `held_bytes` counts what a shell holds too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from gateway.piece import Kind, Piece
from gateway.policy.controls import Paging

_INEXACT: Final = 0.5  # tokens by which a piece may exceed a frame before it is cut: weights are estimates


class Releases(Protocol):
    """What a stream asks of a pacer. Times are seconds on one clock, tokens are fractional."""

    @property
    def empty(self) -> bool: ...
    @property
    def backlog_tokens(self) -> float: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def deadline_releases(self) -> int: ...
    def push(self, now: float, piece: Piece) -> None: ...
    def end(self, now: float) -> None: ...
    def resume(self, now: float) -> None: ...
    def due(self, now: float) -> list[Piece]: ...
    def next_wakeup(self) -> float | None: ...
    def quicken(self, keep_bytes: int) -> None: ...
    def flush(self) -> list[Piece]: ...


class Bounding(Releases, Protocol):
    """One that can be told how much to hold at most."""

    max_held_tokens: float


class _Shell:
    """Hands everything on."""

    def __init__(self, inner: Releases) -> None:
        self._inner = inner

    @property
    def empty(self) -> bool:
        return self._inner.empty

    @property
    def backlog_tokens(self) -> float:
        return self._inner.backlog_tokens

    @property
    def held_bytes(self) -> int:
        return self._inner.held_bytes

    @property
    def deadline_releases(self) -> int:
        return self._inner.deadline_releases

    def push(self, now: float, piece: Piece) -> None:
        self._inner.push(now, piece)

    def end(self, now: float) -> None:
        self._inner.end(now)

    def resume(self, now: float) -> None:
        self._inner.resume(now)

    def quicken(self, keep_bytes: int) -> None:
        self._inner.quicken(keep_bytes)

    def due(self, now: float) -> list[Piece]:
        return self._inner.due(now)

    def next_wakeup(self) -> float | None:
        return self._inner.next_wakeup()

    def flush(self) -> list[Piece]:
        return self._inner.flush()


class Bounded(_Shell):
    """Holds at most `most` tokens of reasoning; what is above leaves at once. The answer is paced as ever."""

    def __init__(self, inner: Bounding, most: float) -> None:
        super().__init__(inner)
        self._bounding = inner
        self._most = most
        self._others = 0.0  # tokens of other kinds that may be held behind the reasoning, or before it

    def push(self, now: float, piece: Piece) -> None:
        if piece.weight:
            if piece.kind is Kind.REASONING:
                self._others = min(self._others, self._inner.backlog_tokens)
            else:
                self._others += piece.weight
            self._bounding.max_held_tokens = self._most + self._others
        self._inner.push(now, piece)


class Paged(_Shell):
    """Reasoning leaves in pages of about so many tokens, with a pause between two of them; the rest is paced by `inner`.

    The first page is what has come first, so that a reader sees at once that something comes. Later ones leave when they are full, when
    other text follows, at the end, or when their first token has waited for `wait_s`; and not before the pause is over.
    """

    def __init__(self, inner: Releases, paging: Paging, wait_s: float, held: Callable[[Kind, float], None] | None = None) -> None:
        super().__init__(inner)
        self._paging = paging
        self._wait_s = wait_s
        self._held = held
        self._pages: deque[tuple[Piece, float]] = deque()
        self._tokens = 0.0  # in the pages
        self._bytes = 0
        self._behind: list[Piece] = []  # what came after reasoning that has not left
        self._next_at = 0.0
        self._begun = False
        self._ended = False

    @property
    def empty(self) -> bool:
        return self._inner.empty and not self._pages and not self._behind

    @property
    def backlog_tokens(self) -> float:
        return self._inner.backlog_tokens + self._tokens + sum(piece.weight for piece in self._behind)

    @property
    def held_bytes(self) -> int:
        return self._inner.held_bytes + self._bytes

    def push(self, now: float, piece: Piece) -> None:
        if piece.weight:
            self._ended = False
        if self._behind or (self._pages and piece.kind not in (Kind.REASONING, Kind.STRUCTURE)):
            self._behind.append(piece)
        elif self._pages or piece.kind is Kind.REASONING:
            if not self._pages and not self._inner.empty:  # what is held before the reasoning is to be out as soon as at any change of kind
                self._inner.push(now, Piece(Kind.REASONING, 0.0, b""))
            self._pages.append((piece, now))
            self._tokens += piece.weight
        else:
            self._inner.push(now, piece)
            return
        self._bytes += piece.size

    def end(self, now: float) -> None:
        self._ended = True
        if not self._pages and not self._behind:
            self._inner.end(now)

    def due(self, now: float) -> list[Piece]:
        if not self._inner.empty or not self._pages:
            return self._inner.due(now)
        if now < self._page_at():
            return []
        page = self._page(now)
        self._next_at = now + self._paging.backoff_s
        self._begun = True
        if not self._pages:
            self._move_up(now)
        return page

    def next_wakeup(self) -> float | None:
        return self._inner.next_wakeup() if not self._inner.empty or not self._pages else self._page_at()

    def flush(self) -> list[Piece]:
        pieces = [*self._inner.flush(), *(piece for piece, _ in self._pages), *self._behind]
        self._pages.clear()
        self._behind.clear()
        self._tokens, self._bytes = 0.0, 0
        return pieces

    def _page_at(self) -> float:
        full = self._tokens >= self._paging.page_tokens or bool(self._behind) or self._ended or not self._begun
        return self._next_at if full else max(self._next_at, self._pages[0][1] + self._wait_s)

    def _page(self, now: float) -> list[Piece]:
        left = float(self._paging.page_tokens)
        page: list[Piece] = []
        while self._pages:
            piece, at = self._pages[0]
            if piece.weight > left + _INEXACT:
                parts = piece.cut(left) if left >= 1.0 else None
                if parts is None and page:
                    break
                if parts is not None:
                    self._pages[0] = (parts[1], at)
                    self._bytes += parts[0].size + parts[1].size - piece.size
                    self._tokens += parts[0].weight + parts[1].weight - piece.weight
                    self._pages.appendleft((parts[0], at))
                    piece = parts[0]
            self._pages.popleft()
            left -= piece.weight
            self._tokens -= piece.weight
            self._bytes -= piece.size
            page.append(piece)
            if self._held is not None:
                self._held(piece.kind, now - at)
        if not self._pages:
            self._tokens = 0.0  # sheds the rounding of many subtractions
        return page

    def _move_up(self, now: float) -> None:
        ended, behind, self._behind = self._ended, self._behind, []
        for piece in behind:
            self._bytes -= piece.size
            self.push(now, piece)
        if ended:
            self.end(now)


class Framed(_Shell):
    """No frame holds more than `most` tokens: what `inner` releases at once is handed out in as many frames as that takes.

    Ask `due` again in the same moment until it gives nothing. An event counts as one token at least.
    """

    def __init__(self, inner: Releases, most: int) -> None:
        super().__init__(inner)
        self._most = float(most)
        self._ready: deque[Piece] = deque()
        self._bytes = 0
        self._asked_at = -1.0

    @property
    def empty(self) -> bool:
        return not self._ready and self._inner.empty

    @property
    def held_bytes(self) -> int:
        return self._inner.held_bytes + self._bytes

    def due(self, now: float) -> list[Piece]:
        ready = self._ready
        if not ready:
            if now == self._asked_at:
                return []
            self._asked_at = now
            ready.extend(self._inner.due(now))
            self._bytes = sum(piece.size for piece in ready)
        frame: list[Piece] = []
        tokens = 0.0
        while ready:
            piece = ready[0]
            if piece.weight:
                if tokens and tokens + max(1.0, piece.weight) > self._most:
                    break
                parts = piece.cut(self._most) if piece.weight > self._most + _INEXACT else None
                if parts is not None:
                    piece = parts[0]
                    ready[0] = parts[1]
                    ready.appendleft(piece)
                tokens += max(1.0, piece.weight)
            ready.popleft()
            frame.append(piece)
        self._bytes = sum(piece.size for piece in ready)
        return frame

    def next_wakeup(self) -> float | None:
        return self._asked_at if self._ready else self._inner.next_wakeup()

    def flush(self) -> list[Piece]:
        pieces = [*self._ready, *self._inner.flush()]
        self._ready.clear()
        self._bytes = 0
        return pieces
