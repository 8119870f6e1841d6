"""The command as a process: `python -m gateway` in a clean environment."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60  # a safety net: each takes well under a second


def run(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DECLUSTER_")}
    return subprocess.run(
        [sys.executable, "-m", "gateway", *argv],
        cwd=ROOT,
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("argv", [["--help"], ["serve", "--help"], ["simulate", "--help"], ["demo", "--help"], ["--version"]])
def test_help_ends_with_0_and_says_nothing_on_stderr(argv: list[str]) -> None:
    done = run(*argv)
    assert (done.returncode, done.stderr) == (0, "")
    assert "decluster" in done.stdout


def test_a_usage_error_ends_with_2() -> None:
    done = run("serve")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("decluster serve: error: ")


def test_a_wrong_file_ends_with_2_and_names_line_and_path(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("upstreams:\n- name: a\n  base_url: http://x\n  api_key: ${NOT_SET_ANYWHERE}\nlog: {evel: info}\n")
    done = run("serve", "--config", str(path))
    assert done.returncode == 2
    assert f"{path}:4: upstreams[0].api_key: the environment variable NOT_SET_ANYWHERE is not set" in done.stderr
    assert f"{path}:5: log.evel: unknown key; did you mean log.level?" in done.stderr


def test_print_config_hides_a_key_of_the_environment_and_is_ascii(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("upstreams: [{name: a, base_url: 'http://x', api_key: '${MY_KEY}', models: [模型]}]\n", encoding="utf-8")
    done = run("serve", "--config", str(path), "--print-config", MY_KEY="sk-secret", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "sk-secret" not in done.stdout
    assert "api_key: '***'" in done.stdout


def test_a_reader_who_leaves_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", "serve", "--upstream", "http://x", "--print-config"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(TIMEOUT_S) == 0


def test_help_loads_nothing_that_help_does_not_need() -> None:
    code = "import sys, json; from gateway.cli import main; main(['serve', '--help'], {}); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert not loaded & {"asyncio", "yaml", "httpx", "starlette", "uvicorn", "logging", "gateway.config", "gateway.settings", "rich"}


@pytest.mark.parametrize("argv", [["serve", "--upstream", "http://127.0.0.1:1"], ["simulate"]])
def test_a_port_that_is_taken_ends_with_1_and_is_told(argv: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run(*argv, "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stdout) == (1, "")
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_warning_about_the_configuration_is_a_line_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("upstreams: [{name: a, base_url: 'http://x', api_key: k}]\nlisten: {host: 0.0.0.0, allow_public: true}\n")
    with socket.create_server(("0.0.0.0", 0)) as taken:  # noqa: S104  # so that it ends by itself
        done = run("serve", "--config", str(path), "--port", str(taken.getsockname()[1]))
    first = json.loads(done.stderr.splitlines()[0])
    assert (done.returncode, first["level"]) == (1, "warning")
    assert "uses the keys of a" in first["message"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_the_gateway_with_0_and_every_line_it_wrote_is_json(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", "serve", "--upstream", "http://127.0.0.1:1", "--port", "0"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if json.loads(line)["message"] == "listening":
                process.send_signal(number)
                break
        for line in process.stderr:
            json.loads(line)
        assert process.wait(TIMEOUT_S) == 0
