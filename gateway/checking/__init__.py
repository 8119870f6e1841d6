"""`decluster check`: whether each upstream can be used, in plain words, before anybody depends on it."""

from __future__ import annotations

from gateway.checking.run import run

__all__ = ["run"]
