"""How the demo looks: two streams side by side, their tokens as a moving picture, and a table of figures.

Owns drawing only: it is given readings and draws what they hold now. Works in colour and without, in UTF-8 and in ASCII.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import regex
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.layout import Layout
from rich.panel import Panel
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from gateway.pacing.clusters import CLUSTER_TOKENS
from gateway.simulator.measure import Reading
from gateway.simulator.text import Part

NAMES: Final = ("raw", "smooth")
_STYLES: Final[dict[Part, str]] = {"reasoning": "dim italic", "content": "", "tool": "cyan", "refusal": "yellow"}
_ROWS: Final = 3  # of a picture; the lowest is what stays below a cluster
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_ASCII: Final = " .:-=+*%#"
# Terminals agree neither on the width of line separators and tabs nor on that of joined emoji, and a wrong width tears the frame.
_DRAWN: Final = str.maketrans({"\u2028": " ", "\u2029": " ", "\t": "    "})
_JOINED: Final = regex.compile(r"(\p{Extended_Pictographic})\uFE0F?(?:\p{EMod}|\u200D\p{Extended_Pictographic}\uFE0F?)+")


def figures(raw: Reading, smooth: Reading) -> list[tuple[str, str, str]]:
    """The rows of the final table: what, of the raw stream, of the smooth one."""
    both = (raw, smooth)

    def row(name: str, values: Sequence[str]) -> tuple[str, str, str]:
        return name, values[0], values[1]

    return [
        row("first token", [_seconds(r.meter.first_at and r.meter.first_at - r.recording.asked) for r in both]),
        row("clusters (24+ in 50 ms)", [str(sum(r.meter.clusters)) for r in both]),
        row("largest burst in 50 ms", [f"{r.meter.peak_tokens:.0f} tokens" for r in both]),
        row("longest freeze", [_seconds(r.meter.longest_gap_s or None) for r in both]),
        row("total time", [_seconds(r.recording.closed - r.recording.asked) for r in both]),
        row("characters received", [f"{sum(map(len, r.text.values())):,}" for r in both]),
        row("ended", [r.ending() for r in both]),
        ("texts", "", "identical" if raw.text == smooth.text else "DIFFERENT"),
    ]


def drawn(text: str, unicode: bool) -> str:
    """The text as any terminal can show it."""
    text = _JOINED.sub(r"\1", text.translate(_DRAWN))
    return text if unicode else text.encode("ascii", "replace").decode()


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


def table(rows: Sequence[tuple[str, str, str]]) -> Table:
    out = Table(title=None, header_style="bold")
    out.add_column("")
    for name, style in zip(NAMES, ("red", "green"), strict=True):
        out.add_column(name, style=style, justify="right", overflow="fold")
    for row in rows:
        out.add_row(*row)
    return out


def plain_table(rows: Sequence[tuple[str, str, str]]) -> str:
    """The same in aligned text."""
    lines = [("", *NAMES), *rows]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    return "\n".join(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in lines)


def timeline(bins: Sequence[float], columns: int, length: int, unicode: bool) -> str:
    """A whole stream in one line of so many columns, `length` bins wide in all: in each column the most that came in 50 ms."""
    marks = _BLOCKS if unicode else _ASCII
    out = []
    for column in range(columns):
        start = column * length // columns
        most = max(bins[start : max(start + 1, (column + 1) * length // columns)], default=0.0)
        out.append(_mark(most, 0.0, _ROWS * CLUSTER_TOKENS, marks))
    return "".join(out)


def _mark(value: float, low: float, high: float, marks: str) -> str:
    """The mark for a value in a cell that spans low to high. Whatever is there at all is seen."""
    if value <= low:
        return marks[0]
    return marks[max(1, min(len(marks) - 1, round((value - low) / (high - low) * (len(marks) - 1))))]


@dataclass(frozen=True, slots=True)
class _Picture:
    """The last tokens per 50 ms as columns; what rises above the lowest row is a cluster."""

    reading: Reading
    now_bins: int  # whole columns since the request
    unicode: bool

    def rows(self, width: int) -> Iterator[Text]:
        start = max(0, self.now_bins - width)
        values = [self.reading.bins[i] if i < len(self.reading.bins) else 0.0 for i in range(start, start + width)]
        marks = _BLOCKS if self.unicode else _ASCII
        for row in reversed(range(_ROWS)):
            line = Text(no_wrap=True)
            for value in values:
                style = "red" if value >= CLUSTER_TOKENS else "green"
                line.append(_mark(value, row * CLUSTER_TOKENS, (row + 1) * CLUSTER_TOKENS, marks), style)
            yield line


@dataclass(frozen=True, slots=True)
class _Side:
    """One stream: the end of its text, its picture, its figures so far."""

    reading: Reading
    picture: _Picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or options.max_height
        below = [*self.picture.rows(width), self._caption()]
        room = max(0, height - len(below))
        lines = self._lines(console, width, room)
        for line in [*lines, *[Text()] * (room - len(lines)), *below[-height:]]:
            cells = console.render_lines(line, options.update(width=width, height=1, no_wrap=True, overflow="crop"), pad=True)
            yield from cells[0]
            yield Segment.line()

    def _lines(self, console: Console, width: int, room: int) -> list[Text]:
        """The last lines. Whole paragraphs are wrapped, so that no line changes once it is full."""
        tail, breaks = Text(), 0
        for part, text in reversed(self.reading.pieces):
            kept = text.rsplit("\n", room - breaks)
            kept = kept if len(kept) <= room - breaks else kept[1:]
            shown = drawn("\n".join(kept), self.picture.unicode)
            tail = Text(shown, _STYLES[part]).append_text(tail)
            breaks += len(kept) - 1
            if breaks >= room - 1:
                break
            tail = Text("\n") + tail if tail.plain and (part, text) != self.reading.pieces[0] else tail
        return list(tail.wrap(console, width, overflow="fold"))[-room:] if room else []

    def _caption(self) -> Text:
        meter = self.reading.meter
        clusters = sum(meter.clusters)
        caption = Text(no_wrap=True, overflow="crop")
        caption.append(f"{clusters} cluster{'' if clusters == 1 else 's'}", "red" if clusters else "green")
        caption.append(f"  max {meter.peak_tokens:.0f}", "none")
        return caption.append(f"  {meter.tokens:.0f} tokens", "bold")


def screen(title: str, readings: Sequence[Reading], elapsed_bins: int, unicode: bool) -> Layout:
    """What the terminal shows now."""
    layout, sides = Layout(), Layout()
    panels = []
    for name, style, reading in zip(NAMES, ("red", "green"), readings, strict=True):
        side = _Side(reading, _Picture(reading, elapsed_bins, unicode))
        panels.append(Layout(Panel(side, title=Text(name, Style(color=style, bold=True)), border_style=style)))
    sides.split_row(*panels)
    legend = "tokens per 50 ms; what rises above the lowest row is a cluster"
    layout.split_column(
        Layout(Text(title, "bold", no_wrap=True, overflow="ellipsis"), size=1),
        sides,
        Layout(Text(legend, "dim", no_wrap=True, overflow="ellipsis"), size=1),
    )
    return layout


def summary(raw: Reading, smooth: Reading, width: int, unicode: bool) -> Group:
    """What stays on the terminal."""
    rows = figures(raw, smooth)
    return Group(*[Text(line, no_wrap=True, overflow="crop") for line in timelines(raw, smooth, width, unicode)], table(rows))


def timelines(raw: Reading, smooth: Reading, width: int, unicode: bool) -> list[str]:
    length = max(len(raw.bins), len(smooth.bins), 1)
    columns = min(length, max(10, width - 8))
    return [f"{name:<7}{timeline(r.bins, columns, length, unicode)}" for name, r in zip(NAMES, (raw, smooth), strict=True)]
