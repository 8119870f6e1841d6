"""The command against the embedded upstream: with a gateway of its own beside it, and against what is not there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.simulated import simulated

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120  # for a machine that does other things


@pytest.fixture
def upstream() -> Iterator[str]:
    with simulated() as url:
        yield url


def bench(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.run(
        [sys.executable, "-m", "gateway", "bench", *arguments],
        cwd=ROOT,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_raw_and_smooth_are_compared_in_one_run(upstream: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = bench(
        *("--target", upstream, "--model", "clusters", "-n", "4", "-c", "4", "--header", "x-simulate-speed: 2", "--json"),
        *("--html", str(page)),
        OPENAI_API_KEY="sk-secret-of-the-test",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    direct, smooth = found["targets"]["direct"], found["targets"]["gateway"]
    assert direct["success"] == smooth["success"] == 1.0
    assert direct["counted"] == smooth["counted"] == 1.0
    assert direct["clusters"] >= 10
    assert smooth["clusters"] < direct["clusters"] / 2
    assert smooth["largest_burst_tokens"] < direct["largest_burst_tokens"] / 2
    assert smooth["tokens"] == pytest.approx(direct["tokens"])
    html = page.read_text()
    assert html.count("<polyline") == 2
    assert "http" not in html.replace("http-equiv", "").replace("chat requests", ""), "a report that needs nothing from elsewhere"
    for text in (done.stdout, done.stderr, html):
        assert "sk-secret-of-the-test" not in text


def test_two_urls_are_compared_as_they_are(upstream: str) -> None:
    done = bench("--target", upstream, "--against", upstream + "/v1", "--model", "instant", "-n", "3", "-c", "1", "--api", "messages")
    assert done.returncode == 0, done.stderr
    assert "100.0 % of 3" in done.stdout
    assert "3 streamed messages requests of model instant" in done.stdout


def test_nobody_there_is_a_figure_and_an_exit_code() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = bench("--target", url, "--against", url, "-n", "2")
    assert done.returncode == 1
    assert "0.0 % of 2" in done.stdout
    assert "2 no connection" in done.stdout


def test_a_run_that_could_cost_money_is_not_begun() -> None:
    done = bench("--target", "https://api.example.com")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--yes" in done.stderr
