"""Counts of several workers in one folder: right totals, nothing left of the dead."""

from __future__ import annotations

import random
import re
from pathlib import Path

from gateway.metrics.metrics import Metrics
from gateway.metrics.shared import Shared, retire


def counted(folder: Path, pid: int, active: int = 0, state: int = 0) -> Metrics:
    """The metrics of one worker."""
    metrics = Metrics(lambda: active, lambda: 2.0 * active, lambda: iter([("up", state)]))
    metrics.shared = Shared(folder, pid)
    return metrics


def sample(metrics: Metrics, line: str) -> float:
    found = re.findall(rf"^{re.escape(line)} (\S+)$", metrics.exposition().decode(), re.MULTILINE)
    assert len(found) == 1, (line, found)
    return float(found[0])


def test_whoever_is_asked_tells_the_sum_of_all(tmp_path: Path) -> None:
    first, second = counted(tmp_path, 1, active=3, state=2), counted(tmp_path, 2, active=4)
    first.heartbeats.add(("before",), 5)
    second.heartbeats.add(("before",), 7)
    second.heartbeats.add(("during",), 1)
    first.overhead.observe((), 0.0005)
    second.overhead.observe((), 0.03)
    first.share()
    second.share()
    for asked in (first, second):
        assert sample(asked, 'decluster_heartbeats_total{phase="before"}') == 12
        assert sample(asked, 'decluster_heartbeats_total{phase="during"}') == 1
        assert sample(asked, "decluster_overhead_seconds_count") == 2
        assert sample(asked, 'decluster_overhead_seconds_bucket{le="0.001"}') == 1
        assert abs(sample(asked, "decluster_overhead_seconds_sum") - 0.0305) < 1e-9
        assert sample(asked, "decluster_streams_active") == 7
        assert sample(asked, "decluster_backlog_tokens") == 14
        assert sample(asked, 'decluster_breaker_state{upstream="up"}') == 2, "the worst of them"


def test_totals_never_fall_when_workers_die_and_no_file_is_left(tmp_path: Path) -> None:
    chance = random.Random("workers")
    living = counted(tmp_path, 1)
    before = 0.0
    total = 0
    for pid in range(2, 40):
        worker = counted(tmp_path, pid, active=9)
        amount = chance.randint(0, 50)
        total += amount
        worker.heartbeats.add(("before",), amount)
        worker.share()
        assert sample(living, 'decluster_heartbeats_total{phase="before"}') >= before
        retire(tmp_path, pid)
        now = sample(living, 'decluster_heartbeats_total{phase="before"}')
        assert now == total >= before
        before = now
        assert sample(living, "decluster_streams_active") == 0, "the dead hold nothing"
    living.share()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.json", "retired.json"]


def test_a_file_that_is_none_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "7.json").write_bytes(b"{nonsense")
    (tmp_path / "8.json").write_bytes(b'{"decluster_heartbeats":[[["before"],[1,2]]]}')
    worker = counted(tmp_path, 1)
    worker.heartbeats.add(("before",), 1)
    assert sample(worker, 'decluster_heartbeats_total{phase="before"}') == 1
    retire(tmp_path, 7)
    retire(tmp_path, 99)
