"""An HTML file that needs nothing else: its style is in it, light and dark by the reader's own setting."""

from __future__ import annotations

from html import escape
from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --c0: #c2410c; --c1: #0f766e; --c2: #6d28d9; --line: #8884 }
@media (prefers-color-scheme: dark) { :root { --c0: #fb923c; --c1: #2dd4bf; --c2: #c4b5fd } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1.5rem 0 }
td, th { padding: .25rem 1rem .25rem 0; border-bottom: 1px solid var(--line) }
td:not(:first-child), th:not(:first-child) { text-align: right; font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto } svg text { font-size: 12px; fill: currentColor }
.key { display: inline-block; width: .8em; height: .8em } p { max-width: 46rem } .note { opacity: .8 }
"""


def document(title: str, *body: str) -> str:
    """`title` is text, `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title><style>{STYLE}</style>\n" + "\n".join(body) + "\n</html>\n"
    )


def key(index: int, name: str) -> str:
    """A curve's name with its colour."""
    return f'<span class="key" style="background:var(--c{index % 3})"></span> {escape(name)}'


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """`head` is HTML, `rows` are text."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"
