"""Curves of streams as pictures: tokens against time, for a terminal, an HTML file, a PNG. Pure but for the PNG's library."""

from __future__ import annotations

from gateway.pictures.curves import Curve, bursts
from gateway.pictures.document import document
from gateway.pictures.svg import svg
from gateway.pictures.terminal import terminal

__all__ = ["Curve", "bursts", "document", "svg", "terminal"]
