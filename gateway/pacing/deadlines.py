"""What the promise asks: how many tokens must be out by when, and the rate that this takes.

Owns the deadlines of what is held, as the vertices of their concave majorant. Knows nothing of pieces, kinds, frames or of what else
speaks for a rate. Tokens are counted from the stream's beginning. The steepest line from what is out now to any deadline is the taut
string over what is in hand ("optimal available": Yao, Demers, Shenker, 1995): the least constant rate that is never late.

Invariants: deadlines and counts rise strictly from vertex to vertex, and slopes between vertices fall; adding takes constant time
amortised. A vertex goes only when it is passed: one below the string that is asked for counts again if less leaves than was asked.
"""

from __future__ import annotations

from collections import deque


class Deadlines:
    """Vertices (seconds, tokens): so many tokens must be out by then."""

    __slots__ = ("_governing", "_vertices")

    def __init__(self) -> None:
        self._governing = 0.0
        self._vertices: deque[tuple[float, float]] = deque()

    def add(self, due: float, count: float) -> None:
        """The tokens up to `count`, the largest so far, must be out by `due`; so must all before them."""
        vertices = self._vertices
        while vertices and vertices[-1][0] >= due:
            vertices.pop()
        while len(vertices) > 1:
            (early, few), (late, many) = vertices[-2], vertices[-1]
            if (many - few) * (due - late) > (count - many) * (late - early):
                break
            vertices.pop()
        vertices.append((due, count))

    def tighten(self, due: float, count: float) -> None:
        """All tokens up to `count`, the newest, must be out by `due` if that is earlier than they were promised."""
        vertices = self._vertices
        if vertices and vertices[-1][0] > due:
            self.add(due, count)

    def shift(self, seconds: float, latest: float) -> None:
        """The clock stood still for so long, as far as the promise is concerned; nothing gets a deadline after `latest`."""
        moved = [(min(due + seconds, latest), count) for due, count in self._vertices]
        self._vertices.clear()
        for due, count in moved:
            self.add(due, count)

    def drop(self, out: float) -> None:
        """What is out has no deadline any more."""
        vertices = self._vertices
        while vertices and vertices[0][1] <= out:
            vertices.popleft()

    def clear(self) -> None:
        self._vertices.clear()

    def overdue(self, now: float, out: float) -> float:
        """Tokens that must be out by `now` and are not, `out` being out."""
        must = 0.0
        for due, count in self._vertices:
            if due > now:
                break
            must = count - out
        return must if must > 0.0 else 0.0

    def rate(self, now: float, out: float) -> float:
        """Tokens a second needed from `now` on, `out` being out, for what is due after `now`. What is overdue must leave as well."""
        vertices = self._vertices
        while vertices and (vertices[0][1] <= out or vertices[0][0] <= now):
            vertices.popleft()
        steepest = 0.0
        for due, count in vertices:
            slope = (count - out) / (due - now)
            if slope < steepest:
                break  # the majorant is concave: from here on slopes only fall
            steepest = slope
            self._governing = due
        return steepest

    def left(self, now: float) -> float:
        """Seconds until the first deadline; infinite if there is none."""
        return self._vertices[0][0] - now if self._vertices else float("inf")

    def governing_left(self, now: float) -> float:
        """Seconds until the deadline that governed the last rate."""
        return self._governing - now
