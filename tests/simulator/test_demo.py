"""The demo as a command: without a terminal, with what it started, and with what can go wrong."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE_S = 60  # for a machine that does other things
ROOT = Path(__file__).parents[2]


@contextmanager
def demo(*arguments: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """The demo in a process of its own, where `arguments` are those of `run`."""
    # A shell starts what runs in the background with SIGINT ignored, and that is inherited: the demo is to be as in the foreground.
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import sys; from gateway.simulator.demo import run; sys.exit(run({', '.join(arguments)}))"
    command = [sys.executable, "-W", "error", "-c", code]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **(env or {})}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/", env=environ
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, errors


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def ports(out: str) -> list[int]:
    return [int(port) for port in re.findall(r"^(?:upstream|gateway) +http://127\.0\.0\.1:(\d+)/v1", out, re.MULTILINE)]


def row(out: str, name: str) -> Sequence[str]:
    [line] = [line for line in out.splitlines() if line.startswith(name)]
    return re.split(r" {2,}", line)[1:]


def test_without_a_terminal_it_prints_progress_and_figures_with_identical_texts() -> None:
    with demo("None", "speed=10") as process:
        code, out, errors = ended(process)
    assert (code, errors) == (0, "")
    assert re.search(r"^ +\d+\.\d s +raw +\d+ tokens +\d+ clusters +smooth +\d+ tokens +\d+ clusters$", out, re.MULTILINE)
    assert row(out, "texts") == ["identical"]
    raw, smooth = row(out, "characters received")
    assert raw == smooth != "0"
    assert row(out, "ended") == ["whole (stop)", "whole (stop)"]
    assert len(ports(out)) == 2
    assert 'OpenAI(base_url="http://127.0.0.1:' in out
    assert not any(map(listens, ports(out)))


def test_a_proxy_in_the_environment_and_an_ascii_pipe_do_no_harm() -> None:
    env = {"HTTP_PROXY": "http://127.0.0.1:9", "all_proxy": "socks5://127.0.0.1:9", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    with demo("'instant'", env=env) as process:
        code, out, errors = ended(process)
    assert (code, errors) == (0, "")
    assert out.isascii()
    assert row(out, "texts") == ["identical"]


def test_a_stream_that_breaks_is_shown_as_broken_on_both_sides() -> None:
    with demo("'dies-half-way'", "speed=20") as process:
        code, out, errors = ended(process)
    assert (code, errors) == (0, "")
    raw, smooth = row(out, "ended")
    assert raw == "the connection was reset"
    assert smooth.startswith("error event: upstream_")
    assert row(out, "texts") == ["identical"]


def test_an_unknown_scenario_is_one_line_that_names_the_known_ones() -> None:
    with demo("'nope'") as process:
        code, out, errors = ended(process)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"decluster demo: no scenario is called 'nope'; there are smooth-then-clusters, .*\n", errors)


@pytest.mark.parametrize("fault", ["'-c', 'import sys; sys.exit(\"it broke\")'", "'-c', ''"])
def test_a_gateway_that_does_not_start_is_one_line_that_says_why(fault: str) -> None:
    with demo("None", f"command=(sys.executable, {fault})") as process:
        code, out, errors = ended(process)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"decluster demo: the gateway ended with exit code [01]: (it broke|it said nothing)\n", errors)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_all_that_it_started(number: signal.Signals) -> None:
    with demo("'hangs'") as process:
        assert process.stdout is not None
        out = "".join(process.stdout.readline() for _ in range(7))  # the greeting and a line of progress
        assert all(map(listens, ports(out)))
        process.send_signal(number)
        code, _, errors = ended(process)
    assert (code, errors) == (130, "\nstopped\n")
    assert not any(map(listens, ports(out)))
