"""Arrival times of streams without their text: recorded, read, pictured, tried with other settings.

format.py: what a trace is, its file. recorder.py and store.py: a running gateway's side. importing.py: timings that other tools noted.
replaying.py: a trace through the pacer, offline. command.py: `decluster trace`.
"""

from __future__ import annotations

from gateway.traces.format import Burst, Trace, TraceError, line_of, load, loads

__all__ = ["Burst", "Trace", "TraceError", "line_of", "load", "loads"]
