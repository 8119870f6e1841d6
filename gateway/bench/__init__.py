"""`decluster bench`: a stream measured with and without the gateway, request by request in turn.

In the order of a run: plan.py (what is asked, of whom, how often) -> run.py (rounds, bounds, progress) -> listening.py (bytes and when they
came) -> reading.py (one stream's figures) -> summary.py (those of many) -> report.py (table, JSON) and page.py (one HTML file).
"""

from __future__ import annotations

from gateway.bench.command import bench

__all__ = ["bench"]
