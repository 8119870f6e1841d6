"""The command against the embedded upstream: with a gateway of its own beside it, and against what is not there."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
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


def finished(upstream: str) -> int:
    with urllib.request.urlopen(upstream + "/_sim/stats") as response:
        return int(json.load(response)["finished"])


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
    assert "2 refused" in done.stdout
    assert "refused: nothing listens there" in done.stdout


def test_a_run_that_could_cost_money_is_not_begun() -> None:
    done = bench("--target", "https://api.example.com")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--yes" in done.stderr


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_asked(upstream: str, tmp_path: Path) -> None:
    done = bench("--target", upstream, "--against", upstream, "--html", str(tmp_path / "no" / "report.html"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "No such file" in done.stderr


def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(upstream: str) -> None:
    done = bench("--target", upstream, "--against", upstream, OPENAI_API_KEY="sk-secret\r\nx-other: 1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "sk-secret" not in done.stderr


def test_where_nothing_succeeds_the_run_is_given_up(upstream: str) -> None:
    done = bench("--target", upstream, "--against", upstream, "--model", "rate-limited", "-n", "5000", "-c", "4", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert "given up" in found["ended"]
    assert sum(target["requests"] for target in found["targets"].values()) < 40


def test_what_was_measured_until_ctrl_c_is_reported(upstream: str, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    command = [sys.executable, "-m", "gateway", "bench", "--target", upstream, "--against", upstream]
    command += ["--model", "instant", "-n", "100000", "-c", "2", "--html", str(report)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()  # it runs
        while finished(upstream) < 8:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "the run ended before its time: interrupted" in told
    assert "of 100000 streamed chat requests" in told
    assert "<svg" in report.read_text()
