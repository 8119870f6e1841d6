"""The embedded upstream: bursty streams by model name, without key or network.

`serving` is for programs, `run` for the command.
"""

from gateway.simulator.serve import run, serving

__all__ = ["run", "serving"]
